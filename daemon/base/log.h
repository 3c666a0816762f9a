/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Writes each message as one line to stderr. If stderr leads to systemd's journal, each line starts
 * with its sd-daemon(3) priority, from which the journal takes the level; else with the name of the
 * process. Levels are syslog's. */

#include <stdbool.h>
#include <syslog.h>

/* Is stderr the stream to the journal that systemd has made for this service? */
bool log_is_journal(void);

void log_init(const char *process, int max_level);
/* 0, even when the level is not logged; or -errno. */
int log_write(int level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* As log_write(), but logs at every level. */
int log_always(int level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_write(LOG_ERR, __VA_ARGS__)
#define log_warning(...) log_write(LOG_WARNING, __VA_ARGS__)
#define log_notice(...) log_write(LOG_NOTICE, __VA_ARGS__)
#define log_info(...) log_write(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_write(LOG_DEBUG, __VA_ARGS__)
