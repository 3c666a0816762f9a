/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A daemon that says what a test gives it. Whoever connects to a Unix socket, to whatever path,
 * while the box is open is connected to it; each time they wait, the next chunk arrives; after the
 * last comes the end. What they say is read and not looked at. Nobody waits in earnest. */

#include <stddef.h>
#include <stdint.h>

/* data is borrowed until daemon_box_close(); each chunk is so long, 0: all of it. */
void daemon_box_open(const uint8_t *data, size_t size, size_t chunk);
void daemon_box_close(void);
