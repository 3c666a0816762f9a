/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The fake catalogue, and the two opaque images, which refer to its entries by number. */

#include "tests/fake/hook.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum metric_type { METRIC_COUNTER, METRIC_RATIO, METRIC_THROUGHPUT, METRIC_TYPE_COUNT };

enum metric_chip { CHIP_GH100 = 1, CHIP_TU102 = 2 };

enum metric_source { SOURCE_THREADS, SOURCE_WARPS, SOURCE_TIME, SOURCE_CONSTANT };

enum {
	METRIC_MAX = 64,
	METRICS_PER_PASS = 4, /* counters and ratios that are not SASS metrics */
	THROUGHPUT_PASSES = 3,
	RANGE_NAME_MAX = 96,
};

#define CONFIG_MAGIC UINT64_C(0x636f6e6669676b66)
#define DATA_MAGIC UINT64_C(0x6461746164616b66)

struct metric {
	const char *name;
	const char *unit;
	const char *dimension;
	const char *description;
	enum metric_type type;
	unsigned int chips;
	bool is_sass;
	enum metric_source source;
	double factor;
	unsigned int instances; /* of the unit: .avg is .sum / instances */
};

struct metric_set {
	uint32_t count;
	uint32_t passes;
	uint32_t sections;		/* metrics that were added together */
	uint16_t metric[METRIC_MAX];	/* index in the catalogue */
	uint16_t section[METRIC_MAX];	/* from 1; they share no passes */
	uint32_t pass_mask[METRIC_MAX]; /* the passes that this metric needs */
};

struct config_image {
	uint64_t magic;
	uint32_t chip;
	uint32_t checksum;
	uint32_t is_sampled, pad; /* for PM sampling */
	struct metric_set set;
};

struct data_range {
	char name[RANGE_NAME_MAX];
	struct fake_work work;
	uint32_t passes_done; /* bit per pass */
	uint32_t pad;
	uint64_t begin_ns, end_ns; /* of a sample */
};

struct data_image {
	uint64_t magic;
	uint32_t capacity, count;
	uint32_t ends_early, reserved; /* of samples: the last one is not complete */
	struct metric_set set;
	struct data_range range[];
};

/* NULL-terminated, in the catalogue's order. */
extern const struct metric metric_catalogue[];

unsigned int metric_chip(const char *name);

/* Looks up a name, with or without its ending. *ret_ending is what follows the base name. */
const struct metric *metric_find(unsigned int chip, const char *name, const char **ret_ending);

/* The endings of a type, NULL-terminated; each begins with a dot. */
const char *const *metric_endings(enum metric_type type);
bool metric_has_ending(const struct metric *metric, const char *ending);

/* What is added from now on shares no pass with what was. */
void metric_set_begin(struct metric_set *set);

/* False: the set is full. Adding a metric twice is the same as adding it once. */
bool metric_set_add(struct metric_set *set, const struct metric *metric);

double metric_value(const struct metric *metric, const char *ending, const struct fake_work *work);

uint32_t metric_checksum(const struct metric_set *set);
