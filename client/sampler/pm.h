/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* CUPTI's calls for PM sampling of one GPU. One thread at a time. */

#include "client/sampler/image.h"
#include "client/sampler/metrics.h"
#include "proto/nvidia/vendor.h"

struct pm {
	struct vendor_sampling v;
	int device;
	CUpti_PmSampling_Object *object; /* NULL: not enabled */
	bool is_started;
	uint32_t room; /* samples in the layout of the last pm_layout() */
};

CUptiResult pm_enable(struct pm *pm);
CUptiResult pm_disable(struct pm *pm);
/* buffer_bytes: size of the hardware's buffer. */
CUptiResult pm_configure(struct pm *pm, const struct host_config *config, size_t buffer_bytes,
			 uint64_t interval_ns);
CUptiResult pm_start(struct pm *pm);
CUptiResult pm_stop(struct pm *pm);

/* Asks for the layout of an image with room for so many samples. */
CUptiResult pm_layout(struct pm *pm, const struct metrics_set *metrics, uint32_t samples,
		      struct image_layout *ret);
/* Initialises the whole image. CUPTI uses the metrics and the layout of the last pm_layout(), so
 * that call has to be for this image. */
CUptiResult pm_init_image(const struct pm *pm, struct image *image);
/* Moves samples into the image. *ret_overflows: the hardware's buffer overflowed. */
CUptiResult pm_decode(const struct pm *pm, struct image *image, bool *ret_is_full,
		      bool *ret_overflows);
/* Counts the samples in the image: complete ones, and all that have begun. */
CUptiResult pm_count(const struct pm *pm, const struct image *image, size_t *ret_complete,
		     size_t *ret_all);
CUptiResult pm_times(const struct pm *pm, const struct image *image, size_t sample,
		     int64_t ret_ns[2]); /* begin and end */
