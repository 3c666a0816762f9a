/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Shared by the files of libgpuctr. */

#include <gpuctr/gpuctr.h>

#include "client/lib/decode.h"
#include "client/lib/expand.h"
#include "proto/base/arena.h"
#include "proto/base/buffer.h"
#include "proto/base/list.h"
#include "proto/wire/status.h"
#include "proto/wire/wire.h"

struct gpuctr {
	int fd;
	char *path;
	struct buffer in, out;
	struct arena arena;   /* memory of the message being handled */
	struct arena scratch; /* memory for encoding a message */
	uint32_t last_request;
	struct list requests;
	struct list captures;
	struct refusal refusal; /* holds the texts of error */
	struct gpuctr_error error;
	int broken; /* code of the error that ended the connection; 0: it is up */
};

/* metrics: those of the capture, with patterns expanded; NULL: e is the reason. */
typedef void (*requests_on_expanded)(struct gpuctr_capture *c, const struct wire_strings *metrics,
				     const struct gpuctr_error *e);

/* A request that waits for the daemon's answer. */
struct request {
	struct list link;
	uint32_t id;
	enum wire_type answer;
	void *userdata;
	gpuctr_on_metric on_metric;
	gpuctr_on_metrics_end on_metrics_end;
	gpuctr_on_plan on_plan;
	gpuctr_on_status on_status;
	gpuctr_on_done on_done;
	gpuctr_on_registered_process on_process;
	/* Set for a list of metrics, and for a plan or capture while its patterns are expanded. */
	struct expansion *expansion;
	struct gpuctr_capture *capture;	  /* the capture whose patterns are expanded */
	requests_on_expanded on_expanded; /* called for this capture */
	char *chip;			  /* of the plan whose patterns are expanded */
};

/* 0, or the code of the error that was stored in g. */
int selection_check(struct gpuctr *g, const struct gpuctr_capture_options *o);
/* Borrows from o. */
struct wire_selection selection_to_wire(const struct gpuctr_capture_options *o);

/* What a process has sent, and which faults were reported. */
struct decoder_process {
	struct decoder *decoder; /* NULL: no records yet */
	bool told_deep, told_full, told_lost_image, told_devices;
};

struct gpuctr_capture {
	struct list link;
	struct gpuctr *g;
	uint32_t request; /* number of the request that opens the capture; identifies it until it
			     has an id */
	uint32_t id;	  /* 0: not opened yet */
	struct gpuctr_capture_handler handler;
	void *userdata;
	struct arena arena;		  /* memory that lives as long as the capture */
	struct wire_open_capture to_open; /* the request, sent once its patterns are expanded */
	struct gpuctr_plan plan;
	enum gpuctr_permit permit;
	char *token;
	char **environment;		   /* variables, in one block */
	struct decoder_process *processes; /* by number of process, from 1 */
	size_t n_processes;
	struct decoder_memory memory; /* shared by all processes */
	bool raw_images;	      /* raw images were requested */
	bool closed;		      /* the client has asked for the end */
};

/* Queues a message and sends what can be sent. -ENOMEM, or GPUCTR_E_DISCONNECTED. */
int connection_send(struct gpuctr *g, const struct wire_message *m);

/* Store an error for gpuctr_last_error(), and return its code. */
int connection_refuse(struct gpuctr *g, const struct refusal *r);
int connection_fail(struct gpuctr *g, int code, const char *message, const char *remedy);

/* Copies a struct that begins with its size from one that the program gave, which may be of another
 * version. size is that of this library's struct. 0, or GPUCTR_E_BAD_REQUEST. */
int options_copy(struct gpuctr *g, void *ret, size_t size, const void *given);

/* Writes a program's name, cut to size and repaired to valid UTF-8. */
void connection_name(const char *program, char *name, size_t size);

/* Asks for the catalogue to expand the patterns among c's metrics; on_expanded() is then called
 * once. After an error, -errno or a code, it is not called. */
int requests_expand(struct gpuctr *g, const char *chip, const struct wire_strings *metrics,
		    requests_on_expanded on_expanded, struct gpuctr_capture *c);
void requests_forget(struct gpuctr *g, const struct gpuctr_capture *c);

/* Frees all waiting requests, without calling their handlers. */
void requests_free_all(struct gpuctr *g);

/* 1: the message answered a request, and has been handled; 0: it is another message. */
int requests_handle(struct gpuctr *g, const struct wire_message *m);
void requests_fail_all(struct gpuctr *g, const struct gpuctr_error *e);

/* 0, or GPUCTR_E_PROTOCOL. */
int captures_handle(struct gpuctr *g, const struct wire_message *m);
void captures_fail_all(struct gpuctr *g, const struct gpuctr_error *e);
void captures_free_all(struct gpuctr *g);

/* Makes a public plan, whose columns live in a. -ENOMEM. */
int plan_from_wire(struct arena *a, const struct wire_plan *in, struct gpuctr_plan *ret);
