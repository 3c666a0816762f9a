/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The stream that gpuctr-sampler writes: samples of one GPU's counters over time. It is binary, in
 * the machine's byte order, because both ends are on one machine. The reader trusts nothing:
 * whatever bytes come, it calls its handler with valid arguments or returns -EBADMSG. */

#include <stddef.h>
#include <stdint.h>

enum {
	SAMPLER_METRICS_MAX = 64,
	SAMPLER_SETS_MAX = 16,	  /* that take turns */
	SAMPLER_NAME_BYTES = 256, /* of a metric, with its NUL */
	SAMPLER_UUID_BYTES = 48,
	SAMPLER_TEXT_BYTES = 512,
};

/* How sampling ended; also gpuctr-sampler's exit status. */
enum sampler_reason {
	SAMPLER_ENDED = 0, /* as asked: after its duration, by a signal, or its reader is gone */
	SAMPLER_USAGE = 2,
	SAMPLER_NO_CUPTI = 10, /* no CUPTI, no driver, or one that is too old */
	SAMPLER_NO_GPU = 11,
	SAMPLER_NO_CHIP = 12,	  /* the GPU cannot be sampled */
	SAMPLER_METRICS = 13,	  /* unknown metrics, or ones that cannot be sampled */
	SAMPLER_PASSES = 14,	  /* the metrics need more than one pass */
	SAMPLER_NOT_ALLOWED = 15, /* the driver refuses the counters */
	SAMPLER_BUSY = 16,	  /* another profiler has the counters */
	SAMPLER_NO_MEMORY = 17,	  /* the interval is too short for the buffers */
	SAMPLER_CUT_OFF = 18,	  /* the counters were taken away in the middle */
	SAMPLER_FAILED = 19,
};

/* Metrics that one pass of the hardware cannot count together are in several sets, which take
 * turns, the first one first. */
struct sampler_begin {
	uint64_t interval_ns; /* of the first set */
	const char *gpu;      /* UUID */
	const char *const *metrics;
	size_t n_metrics;
	/* A writer may set these to NULL and 0: all metrics are in one set. */
	const uint8_t *sets; /* of each metric, its set */
	const uint64_t *intervals_ns;
	size_t n_sets;
};

/* From here on another set is sampled, or the same one at another interval. */
struct sampler_set {
	size_t set;
	uint64_t interval_ns;
	uint64_t change_ns; /* how long nothing was sampled because of the change */
};

struct sampler_end {
	enum sampler_reason reason;
	int64_t end_ns;	  /* ns since 1970; 0: nothing was sampled */
	uint64_t samples; /* that were written */
	uint64_t lost;
	uint64_t dropped;    /* part of lost: the reader was too slow */
	uint64_t overflows;  /* of the hardware's buffer */
	uint64_t cpu_ns;     /* CPU time of the sampler itself */
	const char *message; /* "" or why it ended */
	const char *remedy;
};

/* Times are in ns since 1970, on the clock of CUPTI's activity records. Samples come in order, and
 * each begins where the last one ended, unless on_lost() or on_set() is called between them.
 * Arguments are valid during the call. */
struct sampler_handler {
	void (*on_begin)(void *user, const struct sampler_begin *begin);
	/* values: of the metrics of the set whose turn it is, in their order. */
	void (*on_sample)(void *user, int64_t start_ns, int64_t end_ns, const double *values);
	/* n samples are missing in this time. If the machine's clock was set back, the time is
	 * shorter than these samples were, or empty. */
	void (*on_lost)(void *user, int64_t start_ns, int64_t end_ns, uint64_t n);
	void (*on_end)(void *user, const struct sampler_end *end);
	/* NULL: a stream with several sets is refused. */
	void (*on_set)(void *user, const struct sampler_set *set);
};

struct sampler_reader;

/* handler: borrowed. NULL: out of memory. */
struct sampler_reader *sampler_reader_new(const struct sampler_handler *handler, void *user);
struct sampler_reader *sampler_reader_free(struct sampler_reader *r); /* NULL */

/* Takes bytes as they come, in any pieces. 0; -EBADMSG, also from all later calls: the bytes are no
 * valid stream; -ENOMEM. Keeps no more than an incomplete message, SAMPLER_MESSAGE_MAX. */
int sampler_reader_feed(struct sampler_reader *r, const void *bytes, size_t n);

/* --- the format: messages, each a struct sampler_head and its bytes --- */

enum { SAMPLER_VERSION = 4, SAMPLER_MESSAGE_MAX = 1 << 18 };

enum sampler_message {
	SAMPLER_MESSAGE_BEGIN = 1,
	SAMPLER_MESSAGE_SAMPLES,
	SAMPLER_MESSAGE_END,
	SAMPLER_MESSAGE_SET,
};

struct sampler_head {
	uint32_t type, bytes; /* that follow */
};

/* The UUID and the names of metrics follow, each with a NUL, then a byte for each metric, the
 * number of its set. Sets are numbered as they first come. */
struct sampler_begin_message {
	uint32_t version, n_metrics;
	uint64_t intervals_ns[SAMPLER_SETS_MAX]; /* 0: there is no such set */
};

struct sampler_set_message {
	uint32_t set, reserved;
	uint64_t interval_ns, change_ns;
};

/* n samples, each of which begins where the one before ended: its length in ns (8 bytes), and a
 * double for each metric. */
struct sampler_samples_message {
	uint64_t first; /* number of the first sample, from 0 on, with lost ones counted */
	uint64_t lost;	/* samples lost between the message before and this one */
	int64_t start_ns;
	uint32_t n, reserved;
};

/* Message and remedy follow, each with a NUL. */
struct sampler_end_message {
	uint32_t reason, reserved;
	uint64_t lost_last; /* samples lost after the last one, until end_ns */
	int64_t end_ns;
	uint64_t samples, lost, dropped, overflows, cpu_ns;
};
