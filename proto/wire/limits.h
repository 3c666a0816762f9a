/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Every bound of the protocol in one place. A message beyond one of them is malformed. */

enum {
	PROTO_VERSION = 1, /* a peer that speaks another version is refused */

	LIMIT_FRAME_BYTES = 1 << 20,	/* payload of one frame */
	LIMIT_UNPACKED_BYTES = 8 << 20, /* memory that unpacking one frame may take */

	LIMIT_NAME_BYTES = 256,		/* bytes of a name: metric, chip, GPU, program, version */
	LIMIT_TEXT_BYTES = 4096,	/* sentences for people, regular expressions */
	LIMIT_STRING_BYTES = 16 * 1024, /* NVTX messages, kernel names */
	LIMIT_TOKEN_BYTES = 64,
	LIMIT_JOB_BYTES = 63, /* a scheduler's name of a job */

	LIMIT_EXPRESSIONS =
		16, /* NVTX expressions of a capture: those that include, and those that exclude */
	LIMIT_METRICS = 128, /* in one capture or plan: metrics that are asked for, and columns */
	LIMIT_PLAN_METRICS = 512,
	LIMIT_TERMS = 32,  /* of one column */
	LIMIT_GROUPS = 16, /* groups of a plan that one capture measures in turns */
	LIMIT_GPUS = 64,
	LIMIT_TENANTS = 4096, /* processes on all GPUs */
	LIMIT_CAPTURES = 256, /* in one status reply */
	LIMIT_CODES = 128,    /* counted codes; each is below this */
	LIMIT_WAIT_BUCKETS = 16,
	LIMIT_PROCESSES = 1024, /* registered ones that one capture measures */
	LIMIT_PROCESSES_PER_FRAME = 256,
	LIMIT_CLAIMS = 32, /* of a process */
	LIMIT_METRICS_PER_FRAME = 512,
	LIMIT_SUBMETRICS = 256,

	LIMIT_RECORDS_PER_FRAME = 4096,
	LIMIT_DEFINITIONS_PER_FRAME = 65536,
	LIMIT_IMAGE_PIECE_BYTES = 512 * 1024,
	LIMIT_IMAGE_BYTES = 1 << 30,
};
