/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* All limits of the protocol. A message beyond one of them is malformed. */

enum {
	PROTO_VERSION = 1, /* a peer that speaks another version is refused */

	LIMIT_FRAME_BYTES = 1 << 20,	/* payload of one frame */
	LIMIT_UNPACKED_BYTES = 8 << 20, /* memory that unpacking one frame may take */

	LIMIT_NAME_BYTES = 256,		/* bytes of a name: metric, chip, GPU, program, version */
	LIMIT_TEXT_BYTES = 4096,	/* bytes of sentences for people, regular expressions */
	LIMIT_STRING_BYTES = 16 * 1024, /* bytes of NVTX messages, kernel names */
	LIMIT_TOKEN_BYTES = 64,
	LIMIT_JOB_BYTES = 63, /* bytes of a scheduler's name of a job */

	LIMIT_EXPRESSIONS =
		16, /* NVTX expressions of a capture: in nvtx_include, and in its nvtx_exclude */
	LIMIT_METRICS = 128, /* requested metrics, or columns, in one capture or plan */
	LIMIT_PLAN_METRICS = 512,
	LIMIT_TERMS = 32,  /* terms of one column */
	LIMIT_GROUPS = 16, /* groups of a plan that one capture measures in turns */
	LIMIT_GPUS = 64,
	LIMIT_TENANTS = 4096, /* computing processes on all GPUs */
	LIMIT_CAPTURES = 256, /* captures in one status reply */
	LIMIT_CODES = 128,    /* codes that are counted; each code is below this */
	LIMIT_WAIT_BUCKETS = 16,
	LIMIT_PROCESSES = 1024, /* registered processes that one capture measures */
	LIMIT_PROCESSES_PER_FRAME = 256,
	LIMIT_CLAIMS = 32, /* claims of a process */
	LIMIT_METRICS_PER_FRAME = 512,
	LIMIT_SUBMETRICS = 256,

	LIMIT_RECORDS_PER_FRAME = 4096,
	LIMIT_DEFINITIONS_PER_FRAME = 65536,
	LIMIT_IMAGE_PIECE_BYTES = 512 * 1024,
	LIMIT_IMAGE_BYTES = 1 << 30,
};
