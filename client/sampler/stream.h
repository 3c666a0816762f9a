/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What gpuctr-sampler writes and its reader gets: samples of one GPU's counters over time. Binary,
 * in the order of bytes of the machine, because both ends are on it. The reader believes nothing:
 * whatever comes, it calls its handler with sound arguments or says -EBADMSG. */

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
	SAMPLER_NO_CUPTI = 10, /* or no driver, or one that is too old */
	SAMPLER_NO_GPU = 11,
	SAMPLER_NO_CHIP = 12,	  /* it cannot be sampled */
	SAMPLER_METRICS = 13,	  /* unknown, or not to be sampled */
	SAMPLER_PASSES = 14,	  /* more than one */
	SAMPLER_NOT_ALLOWED = 15, /* the driver refuses the counters */
	SAMPLER_BUSY = 16,	  /* another profiler has them */
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
	/* Of a writer, NULL and 0: all are in one. */
	const uint8_t *sets; /* of each metric, its set */
	const uint64_t *intervals_ns;
	size_t n_sets;
};

/* From here on another set is sampled, or the same one at another interval. */
struct sampler_set {
	size_t set;
	uint64_t interval_ns;
	uint64_t change_ns; /* how long nothing was sampled for it */
};

struct sampler_end {
	enum sampler_reason reason;
	int64_t end_ns;	  /* since 1970; 0: nothing was sampled */
	uint64_t samples; /* that were written */
	uint64_t lost;
	uint64_t dropped;    /* of these: the reader was too slow */
	uint64_t overflows;  /* of the hardware's buffer */
	uint64_t cpu_ns;     /* what the sampler itself used */
	const char *message; /* "" or why it ended */
	const char *remedy;
};

/* Times in ns since 1970, the clock of CUPTI's activity records. Samples come in their order, one
 * ends where the next begins unless some were lost between, which is told first, or another set
 * has its turn. Arguments are valid during the call. */
struct sampler_handler {
	void (*on_begin)(void *user, const struct sampler_begin *begin);
	/* values: of the metrics of the set whose turn it is, in their order. */
	void (*on_sample)(void *user, int64_t start_ns, int64_t end_ns, const double *values);
	/* n samples are missing in this time, which is shorter than they were, or none, when the
	 * machine's clock was set back. */
	void (*on_lost)(void *user, int64_t start_ns, int64_t end_ns, uint64_t n);
	void (*on_end)(void *user, const struct sampler_end *end);
	/* NULL: a stream with several sets is refused. */
	void (*on_set)(void *user, const struct sampler_set *set);
};

struct sampler_reader;

/* handler: borrowed. NULL: out of memory. */
struct sampler_reader *sampler_reader_new(const struct sampler_handler *handler, void *user);
struct sampler_reader *sampler_reader_free(struct sampler_reader *r); /* NULL */

/* Takes bytes as they come, in any pieces. 0; -EBADMSG: the stream is none, from here on; -ENOMEM.
 * Holds no more than a message, SAMPLER_MESSAGE_MAX. */
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
	uint64_t first; /* number of the first one, of all from 0 on, lost ones too */
	uint64_t lost;	/* before it, and after the last of the message before */
	int64_t start_ns;
	uint32_t n, reserved;
};

/* Message and remedy follow, each with a NUL. */
struct sampler_end_message {
	uint32_t reason, reserved;
	uint64_t lost_last; /* after the last sample, until end_ns */
	int64_t end_ns;
	uint64_t samples, lost, dropped, overflows, cpu_ns;
};
