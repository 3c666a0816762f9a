/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The resource manager's side of ioctl on the control device: type 'F', RM_ALLOC and RM_FREE. */

enum {
	RM_IOCTL_TYPE = 'F',
	RM_ESC_FREE = 0x29,
	RM_ESC_CONTROL = 0x2a,
	RM_ESC_ALLOC = 0x2b,

	RM_CONTROL_GPU_ID = 0x2080014a,
	RM_SUBDEVICE_HANDLE = 0x5c000030, /* of GPU 0, the others follow */

	RM_OK = 0x0,
	RM_INSERT_DUPLICATE_NAME = 0x19,
	RM_INSUFFICIENT_RESOURCES = 0x1a,
	RM_INSUFFICIENT_PERMISSIONS = 0x1b,
	RM_INVALID_CLIENT = 0x23,
	RM_INVALID_OBJECT_PARENT = 0x36,
	RM_INVALID_OBJECT = 0x33,
	RM_NOT_SUPPORTED = 0x56,
	RM_OBJECT_NOT_FOUND = 0x57,
};

/* NVOS64, since driver 535. */
struct rm_alloc {
	uint32_t h_root, h_parent, h_new, h_class;
	uint64_t params;
	uint64_t rights;
	uint32_t params_size, flags, status, pad;
};

/* NVOS21, the older form. */
struct rm_alloc_old {
	uint32_t h_root, h_parent, h_new, h_class;
	uint64_t params;
	uint32_t params_size, status;
};

/* NVOS00. */
struct rm_free {
	uint32_t h_root, h_parent, h_old, status;
};

/* NVOS54. */
struct rm_control {
	uint32_t h_root, h_object, command, flags;
	uint64_t params;
	uint32_t params_size, status;
};

/* What RM_CONTROL_GPU_ID points to: the UUID of a subdevice's GPU. */
struct rm_gpu_id_params {
	uint32_t index, flags, length;
	uint8_t data[256];
};

/* What an allocation of class 0xB2CC points to. */
struct rm_profiler_params {
	uint32_t h_client_target, h_context_target;
};

/* Answers an ioctl of type 'F'. file is the identity of the open file; 0: it is not the control
 * device. Returns 0, or a negative errno. */
int rm_ioctl(uint64_t file, unsigned long request, void *argument);

/* Keeps the present identity and capabilities of this process from now on: it is about to forbid
 * the calls that ask for them. */
void rm_freeze_identity(void);
