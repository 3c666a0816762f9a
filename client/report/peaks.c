/* SPDX-License-Identifier: Apache-2.0 */

/* Multiprocessors and widths of the memory bus, from the data sheets of the boards. Memory moves
 * two values a clock and wire. A device that is not here has no share of its peak, which is better
 * than one of another board's. */

#include "client/report/peaks.h"

#include <ctype.h>
#include <string.h>

static const struct board {
	const char *model; /* the word of the name */
	const char *also;  /* a word that has to be there too, or NULL */
	unsigned multiprocessors, bus_bits;
} boards[] = {
	{ "H200", NULL, 132, 6144 },   { "H100", "HBM3", 132, 5120 }, { "H100", "PCIe", 114, 5120 },
	{ "A100", "80GB", 108, 5120 }, { "A100", "40GB", 108, 5120 },
};

/* As a word of its own: "H200" is in "NVIDIA H200", and not in "GH200". */
static bool has_word(const char *text, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = text; (p = strstr(p, word)); p++) {
		if ((p == text || !isalnum((unsigned char)p[-1])) &&
		    !isalnum((unsigned char)p[n])) {
			return true;
		}
	}
	return false;
}

static const struct board *find_board(const char *name)
{
	for (size_t i = 0; name && i < sizeof(boards) / sizeof(boards[0]); i++) {
		if (has_word(name, boards[i].model) &&
		    (!boards[i].also || has_word(name, boards[i].also))) {
			return &boards[i];
		}
	}
	return NULL;
}

unsigned peaks_multiprocessors(const struct gpuctr_device *device)
{
	const struct board *board = find_board(device->name);

	return board ? board->multiprocessors : 0;
}

double peaks_bytes_a_ns(const struct gpuctr_device *device)
{
	const struct board *board = find_board(device->name);

	return board ? 2.0 * device->clock_mem_mhz * 1e-3 * board->bus_bits / 8 : 0;
}
