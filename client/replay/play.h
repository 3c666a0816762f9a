/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/store/reader.h"
#include "proto/nvidia/host.h"
#include "proto/wire/status.h"

/* Plays one process of a recording into the capture that socket_path and token name: the agent's
 * own code evaluates and sends its launches and counter data. Adds the number of measured launches
 * to *total_measured. vendor: NULL for a recording with samples. 0, or a positive code with r
 * filled. */
int play_process(struct store_reader *reader, const struct store_process *process,
		 const struct vendor_host *vendor, const char *socket_path, const char *token,
		 bool realtime, uint64_t *total_measured, struct refusal *r);

/* Fills r with the reader's error, and returns its code. */
int play_unreadable(struct store_reader *reader, struct refusal *r);

/* Writes the hardware on which the recording was made: "NVIDIA H200 (GH100), driver 580.159.04". */
void play_hardware(const struct store_info *info, const struct store_process *process, char *text,
		   size_t size);
