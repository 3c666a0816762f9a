/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The three requests of NVIDIA's resource manager (RM) that a lease needs, and nothing else of the
 * driver's interface. Layouts as of drivers 535 to 580, read in open-gpu-kernel-modules
 * (src/nvidia/arch/nvalloc/unix/include/nv_escape.h, src/common/sdk/nvidia/inc/nvos.h) and observed
 * from libcuda 580.159.04. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/ioctl.h>

enum {
	RM_ESCAPE_FREE = 0x29,
	RM_ESCAPE_CONTROL = 0x2a,
	RM_ESCAPE_ALLOC = 0x2b,
	RM_CLASS_PROFILER_DEVICE = 0xb2cc, /* MAXWELL_PROFILER_DEVICE */

	RM_STATUS_OK = 0x00,
	RM_STATUS_INSUFFICIENT_PERMISSIONS = 0x1b,
	RM_STATUS_CLIENT_NOT_FOUND = 0x33, /* status of a free; NV_ERR_INVALID_OBJECT_HANDLE */
	RM_STATUS_OBJECT_NOT_FOUND = 0x57,

	RM_CONTROL_GPU_ID = 0x2080014a, /* NV2080_CTRL_CMD_GPU_GET_GID_INFO */
	RM_GPU_ID_BINARY = 2,		/* ..._GET_GID_FLAGS_FORMAT_BINARY, of type SHA-1 */

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

/* NVOS54_PARAMETERS */
struct rm_control {
	uint32_t root, object, command, flags;
	uint64_t parameters; /* address */
	uint32_t parameters_size, status;
};

/* The UUID of a GPU, as bytes; its text begins with "GPU-". */
struct rm_gpu {
	uint8_t uuid[16];
};

/* NV2080_CTRL_GPU_GET_GID_INFO_PARAMS */
struct rm_gpu_id_parameters {
	uint32_t index, flags, length;
	uint8_t data[256];
};

_Static_assert(sizeof(struct rm_alloc) == 48, "NVOS64_PARAMETERS");
_Static_assert(sizeof(struct rm_alloc_short) == 32, "NVOS21_PARAMETERS");
_Static_assert(sizeof(struct rm_free) == 16, "NVOS00_PARAMETERS");
_Static_assert(sizeof(struct rm_control) == 32, "NVOS54_PARAMETERS");

#define RM_IOCTL_ALLOC _IOWR('F', RM_ESCAPE_ALLOC, struct rm_alloc)
#define RM_IOCTL_ALLOC_SHORT _IOWR('F', RM_ESCAPE_ALLOC, struct rm_alloc_short)
#define RM_IOCTL_FREE _IOWR('F', RM_ESCAPE_FREE, struct rm_free)
#define RM_IOCTL_CONTROL _IOWR('F', RM_ESCAPE_CONTROL, struct rm_control)

/* Is fd an open /dev/nvidiactl, and not an O_PATH handle? Makes no ioctl and waits for nothing,
 * whatever fd is. */
bool rm_is_control_device(int fd);

/* Allocates a profiler object in the RM client behind fd. Sets everything except the five numbers
 * here: rights 0, flags 0, parameters in our own memory. 0, with the driver's answer in
 * *ret_status, or -errno when the ioctl itself failed. *object is the wanted number and then the
 * driver's, which replaces 0 by a number of its choice. */
int rm_alloc_profiler(int fd, uint32_t root, uint32_t parent, uint32_t *object,
		      const struct rm_profiler_parameters *parameters, uint32_t *ret_status);

/* Was this client made on this file, and does it live? RM finds the target of an allocation by its
 * number, whoever made it, but frees only objects of clients that were made on the calling file. So
 * this asks RM to free object 0, which never exists. Seen with driver 580.159.04: status 0 for a
 * client of the file, 0x23 for a living client of another file, 0x33 for none. */
bool rm_file_has_client(int fd, uint32_t client);

/* The GPU of a subdevice, which is the parent of a profiler object, in a client made on this file.
 * 0, with the driver's answer in *ret_status, or -errno; *ret is all zeros unless the driver has
 * returned the UUID. Seen with driver 580.159.04, from a process of another user that holds the
 * file: 0x57 for no object, 0x56 for an object that is no subdevice. */
int rm_find_gpu(int fd, uint32_t root, uint32_t subdevice, struct rm_gpu *ret,
		uint32_t *ret_status);

/* Reads "GPU-" and 32 hexadecimal digits, with hyphens anywhere between. */
bool rm_gpu_from_text(const char *text, struct rm_gpu *ret);

int rm_free_object(int fd, uint32_t root, uint32_t parent, uint32_t object, uint32_t *ret_status);
