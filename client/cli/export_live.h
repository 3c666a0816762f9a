/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_CLI_EXPORT_LIVE_H
#define CLIENT_CLI_EXPORT_LIVE_H

#include "client/report/exporter.h"

/* A capture file as the live stream would have been. */
extern const struct exporter export_live_jsonl;
extern const struct exporter export_live_csv;

#endif
