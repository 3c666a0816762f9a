/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_NVIDIA_RM_H
#define GPUCTR_NVIDIA_RM_H

/* The two requests of NVIDIA's resource manager (RM) that a lease needs, and nothing else of the
 * driver's interface. Layouts as of drivers 535 to 580, read in open-gpu-kernel-modules
 * (src/nvidia/arch/nvalloc/unix/include/nv_escape.h, src/common/sdk/nvidia/inc/nvos.h) and observed
 * from libcuda 580.159.04. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/ioctl.h>

enum {
	RM_ESCAPE_FREE = 0x29,
	RM_ESCAPE_ALLOC = 0x2b,
	RM_CLASS_PROFILER_DEVICE = 0xb2cc, /* MAXWELL_PROFILER_DEVICE */

	RM_STATUS_OK = 0x00,
	RM_STATUS_INSUFFICIENT_PERMISSIONS = 0x1b,
	RM_STATUS_OBJECT_NOT_FOUND = 0x57,

	RM_DEVICE_MAJOR = 195,
	RM_DEVICE_MINOR_CONTROL = 255, /* /dev/nvidiactl */
};

/* NVOS64_PARAMETERS */
struct rm_alloc {
	uint32_t root, parent, object, object_class;
	uint64_t parameters; /* address */
	uint64_t rights;     /* address */
	uint32_t parameters_size, flags, status, padding;
};

/* NVOS21_PARAMETERS, the older form */
struct rm_alloc_short {
	uint32_t root, parent, object, object_class;
	uint64_t parameters;
	uint32_t parameters_size, status;
};

/* NVB2CC_ALLOC_PARAMETERS */
struct rm_profiler_parameters {
	uint32_t client_target, context_target;
};

/* NVOS00_PARAMETERS */
struct rm_free {
	uint32_t root, parent, object, status;
};

_Static_assert(sizeof(struct rm_alloc) == 48, "NVOS64_PARAMETERS");
_Static_assert(sizeof(struct rm_alloc_short) == 32, "NVOS21_PARAMETERS");
_Static_assert(sizeof(struct rm_free) == 16, "NVOS00_PARAMETERS");

#define RM_IOCTL_ALLOC _IOWR('F', RM_ESCAPE_ALLOC, struct rm_alloc)
#define RM_IOCTL_ALLOC_SHORT _IOWR('F', RM_ESCAPE_ALLOC, struct rm_alloc_short)
#define RM_IOCTL_FREE _IOWR('F', RM_ESCAPE_FREE, struct rm_free)

/* Is fd an open /dev/nvidiactl, and not an O_PATH handle? Makes no ioctl and waits for nothing,
 * whatever fd is. */
bool rm_is_control_device(int fd);

/* Allocates a profiler object in the RM client behind fd. Everything but the five numbers is set
 * here: rights 0, flags 0, parameters in our own memory. 0, with the driver's answer in
 * *ret_status, or -errno when the ioctl itself failed. */
int rm_alloc_profiler(int fd, uint32_t root, uint32_t parent, uint32_t object,
		      const struct rm_profiler_parameters *parameters, uint32_t *ret_status);

/* Was this client made on this file, and does it live? RM finds the target of an allocation by its
 * number, whoever made it, but frees only under clients of the calling file. So RM is asked to free
 * what never exists, object 0. Seen with driver 580.159.04: status 0 for a client of the file, 0x23
 * for a living client of another file, 0x33 for none. */
bool rm_file_has_client(int fd, uint32_t client);

int rm_free_object(int fd, uint32_t root, uint32_t parent, uint32_t object, uint32_t *ret_status);

#endif
