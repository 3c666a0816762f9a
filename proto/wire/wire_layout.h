/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Maps a plain struct of wire.h to a protobuf message: one row for each field, with its limit.
 * make_wire.py generates the tables from the .proto files. Internal to proto/. */

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/wire/wire.h"

enum wire_kind {
	WIRE_KIND_U32, /* limit: largest value, 0: any */
	WIRE_KIND_U64,
	WIRE_KIND_BOOL,
	WIRE_KIND_STRING,   /* limit: bytes */
	WIRE_KIND_BYTES,    /* limit: bytes */
	WIRE_KIND_MESSAGE,  /* a struct inside the struct */
	WIRE_KIND_OPTIONAL, /* a pointer to a struct, NULL when it is absent */
	/* lists: */
	WIRE_KIND_STRINGS,  /* limit: count; each string up to LIMIT_STRING_BYTES */
	WIRE_KIND_NUMBERS,  /* repeated 32 or 64 bit scalars; limit: count */
	WIRE_KIND_MESSAGES, /* limit: count */
};

struct wire_layout;

struct wire_field {
	unsigned number; /* field number in the .proto */
	enum wire_kind kind;
	size_t offset;	 /* offset in the plain struct */
	size_t n_offset; /* offset of a list's number of elements */
	uint32_t limit;
	const struct wire_layout *sub;
};

struct wire_layout {
	const char *name;
	const ProtobufCMessageDescriptor *descriptor;
	size_t size;
	const struct wire_field *fields;
	size_t n_fields;
	bool (*validate)(const void *plain); /* checks relations between fields; NULL: none */
};

/* The elements of a list: v points to them as bytes, and n is their number. */
struct wire_bytes wire_list(const struct wire_field *f, const void *plain);

/* Functions in the tables that check relations between fields. */
bool wire_check_plan(const void *plain);
bool wire_check_tenants(const void *plain);

/* NULL for an unknown type. */
const struct wire_layout *wire_layout_find(unsigned type);
