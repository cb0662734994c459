static __thread int count;
int thread_local(void) { return ++count; }
