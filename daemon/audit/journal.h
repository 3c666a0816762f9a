/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Structured entries of systemd's journal: a few named fields in sd_journal_sendv(3)'s form.
 * libsystemd opens its socket at the first entry, so a process sends one before its filter forbids
 * that. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { JOURNAL_FIELDS_MAX = 24, JOURNAL_BYTES_MAX = 12288 };

struct journal_entry {
	char text[JOURNAL_BYTES_MAX];
	size_t used;
	size_t begins[JOURNAL_FIELDS_MAX];
	size_t n;
};

void journal_begin(struct journal_entry *e);

/* Adds "KEY=value", cut to the room that the entry has left. */
void journal_add(struct journal_entry *e, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* 0 or -errno. */
int journal_send(const struct journal_entry *e);
