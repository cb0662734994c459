static int count;
int writes(void) { return ++count; }
