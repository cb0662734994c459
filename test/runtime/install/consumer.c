/* Runs the first variant of a bundle on zeros and prints the first value of its first output. */
#include <mrcc/runtime.h>
#include <stdio.h>
#include <stdlib.h>

static int fail(mrcc_error *error) {
  fprintf(stderr, "%s (%s)\n", mrcc_error_message(error), mrcc_error_place(error));
  mrcc_error_free(error);
  return 1;
}

static mrcc_tensor make(const mrcc_tensor_info *info) {
  mrcc_tensor t = MRCC_TENSOR_INIT;
  t.name = info->name;
  t.data = calloc(1, info->bytes);
  t.bytes = info->bytes;
  t.dtype = info->dtype;
  t.rank = info->rank;
  t.dims = info->dims;
  return t;
}

int main(int argc, char **argv) {
  mrcc_model *model = NULL;
  mrcc_context *context = NULL;
  mrcc_error *error = NULL;
  mrcc_variant_info v = MRCC_VARIANT_INFO_INIT;
  mrcc_tensor in, out;
  if (argc != 2)
    return 2;
  if (mrcc_model_open(argv[1], NULL, &model, &error) || mrcc_context_create(model, NULL, &context, &error) ||
      mrcc_model_variant(model, 0, &v, &error))
    return fail(error);
  in = make(&v.inputs[0]);
  out = make(&v.outputs[0]);
  if (mrcc_context_run(context, &in, 1, &out, 1, &error))
    return fail(error);
  printf("%s %s: %g\n", mrcc_version(), v.key, (double)((float *)out.data)[0]);
  free(in.data);
  free(out.data);
  mrcc_context_free(context);
  mrcc_model_free(model);
  return 0;
}
