static const int table[] = {1, 2, 3};
int good(int i) { return table[i]; }
