/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/buf.h"

/* Makes text from outside safe for the place it goes to, and writes numbers for people. */

/* Would a spreadsheet compute the text instead of showing it? */
bool text_is_formula(const char *text);
/* Appends a CSV field (RFC 4180), quoted only where it must be. CSV has no escapes, so control
 * characters except tabs and newlines become U+FFFD. A text that a spreadsheet would take for a
 * formula gets an apostrophe in front, because programs choose the exported names. */
void text_csv(struct buf *b, const char *text);
/* Appends text for a terminal: characters that control the terminal, or that reorder or hide text,
 * become escapes. */
void text_terminal(struct buf *b, const char *text);
/* The same for formatted text. A newline at the end of the format stays a newline. */
__attribute__((format(printf, 2, 3))) void text_printf(struct buf *b, const char *format, ...);
/* Columns that a result of text_terminal() takes on a terminal, by wcwidth(3). Before setlocale()
 * wcwidth() knows only ASCII, and other code points count as one column each. Escape sequences that
 * set a style (terminal.h) count as none. */
size_t text_width(const char *text, size_t n);
/* How many bytes of the text, in whole characters, take at most width columns. */
size_t text_fit(const char *text, size_t n, size_t width);

/* Appends text and spaces up to width columns: the spaces first if right, else the text first. */
void text_pad(struct buf *b, const char *text, size_t width, bool right);

/* Appends text as lines of at most width columns, broken at spaces, each with a newline. A longer
 * word stays whole. */
void text_wrap(struct buf *b, const char *text, size_t width);

/* Appends text in at most width columns. A longer text is shortened to about the first `begin`
 * columns, "..", and its end. */
void text_middle_cut(struct buf *b, const char *text, size_t begin, size_t width);

/* Stands for an unknown value in text. JSON has null, and CSV an empty field. */
#define TEXT_UNKNOWN "na"

/* Shortens a demangled kernel name to width columns: drops return type and parameters, then
 * namespaces, then templates that only wrap the kernel, then cuts. Safe for a terminal. */
void text_kernel(struct buf *b, const char *name, size_t width);
/* The kernel's name without return type, parameters and namespaces. The text is not made safe for a
 * terminal. */
void text_kernel_bare(struct buf *b, const char *name);
/* Reduces a bare name to what it wraps: "Kernel2<cutlass_80_tensorop_gemm>" to
 * "cutlass_80_tensorop_gemm". */
void text_kernel_unwrap(struct buf *bare);

/* Numbers for people: "12,345", "1.53 GB", "46.0 us", "58.2 %". unit: CUPTI's name of it. */
void text_count(struct buf *b, uint64_t value);
const char *text_counted(char room[32], uint64_t value);
/* A count as an argument of a format; lives until the block ends. */
#define TEXT_COUNT(value) text_counted((char[32]){ "" }, value)
void text_scaled(struct buf *b, double value, const char *unit);
/* "12", "0.045": two digits, without "%", and without an exponent up to a million. */
void text_percent(struct buf *b, double percent);
void text_time(struct buf *b, double ns);
/* A long duration: "43 s", "4 min 3 s", "2 d 1 h". */
void text_duration(struct buf *b, uint64_t ns);
/* As `ps` has it: hours:minutes:seconds, "26:03:07". */
void text_age(struct buf *b, uint64_t ns);
