/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/report/exporter.h"

/* A capture file as the live stream would have been. */
extern const struct exporter export_live_jsonl;
extern const struct exporter export_live_csv;
