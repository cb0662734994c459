void *memset(void *, int, unsigned long);
void imports(char *p, unsigned long n) { memset(p, 0, n); }
