/* SPDX-License-Identifier: Apache-2.0 */

/* The public header in C++: it compiles without a warning, and a struct begins with its size. */

#include <gpuctr/gpuctr.h>

static void on_end(struct gpuctr_capture *, const struct gpuctr_end *, void *)
{
}

int main()
{
	struct gpuctr_capture_options options = GPUCTR_INIT(gpuctr_capture_options);
	gpuctr_capture_handler handler = GPUCTR_INIT(gpuctr_capture_handler);

	handler.on_end = on_end;
	return options.size == sizeof(options) && options.metrics == nullptr &&
			       options.launch_count == 0 && handler.size == sizeof(handler) &&
			       handler.on_ready == nullptr && gpuctr_version()[0] != '\0'
		       ? 0
		       : 1;
}
