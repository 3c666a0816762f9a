/* SPDX-License-Identifier: Apache-2.0 */

/* Gives the records of a sampled run their values, and writes them to the stream. */

#include "client/cli/sinks.h"

#include "client/cli/say.h"
#include "client/report/reading.h"

enum { PAUSE_RECORDS = 4096 };

void sinks_close_stream(struct sinks *s)
{
	s->stream_is_cut |= !stream_close(s->stream);
	s->stream = NULL;
}

struct valuing {
	struct sinks *sinks;
	size_t n;
	sampled_on_pause *on_pause;
	void *user;
};

static int value_record(const struct gpuctr_record *recorded, const struct attribution *what,
			void *userdata)
{
	struct valuing *v = userdata;
	struct gpuctr_record record = *recorded;

	if (v->sinks->sampled) {
		sampled_apply(v->sinks->sampled, v->n, &record);
		files_values(&v->sinks->files, &record);
	}
	v->n++;
	if (v->n % PAUSE_RECORDS == 0) {
		v->on_pause(v->user);
	}
	return 0;
}

static int value_process_end(const struct store_process *process, void *userdata)
{
	files_values_end(&((struct valuing *)userdata)->sinks->files, process->process.process);
	return 0;
}

static void say_unreadable(int r, const struct store_error *error)
{
	if (r > 0 && error->code) {
		say_error(store_error_name(error->code), error->message, error->remedy);
	} else {
		say_usage("what was recorded has no values: memory ran out, or too few samples "
			  "came to tell which metrics were sampled together; sample fewer metrics, "
			  "or for longer");
	}
}

void sinks_attribute(struct sinks *s, sampled_on_pause *on_pause, void *user)
{
	const struct reading_handler handler = {
		.on_record = value_record,
		.on_process_end = value_process_end,
		.brief = true,
	};
	struct valuing v = { s, 0, on_pause, user };
	struct store_error error = { 0 };
	int r;

	s->reader = files_read(&s->files);
	if (!s->reader) {
		return;
	}
	r = sampled_read(s->reader, on_pause, user, &s->sampled);
	if (r) {
		say_unreadable(r, store_reader_error(s->reader));
	} else {
		sampled_leave_out(s->sampled, s->files.kept.bad);
	}
	/* Without values this pass only closes files of processes that have ended. */
	r = reading_reader(s->reader, &handler, &v, &error);
	r = r || !s->sampled ? r : files_share(&s->files, s->reader);
	if (r) {
		say_unreadable(r, error.code ? &error : store_reader_error(s->reader));
	}
}

struct sampled *sinks_sampled(const struct sinks *s)
{
	return files_have_values(&s->files) ? NULL : s->sampled;
}

static int stream_each_process(const struct store_process *process, void *userdata)
{
	stream_process(((struct sinks *)userdata)->stream, &process->process);
	return 0;
}

static int stream_each_record(const struct gpuctr_record *record, const struct attribution *what,
			      void *userdata)
{
	struct sinks *s = userdata;
	struct gpuctr_record copy = *record;

	if (sinks_sampled(s)) {
		sampled_apply(s->sampled, s->n_streamed++, &copy);
	}
	jsonl_record(stream_jsonl(s->stream), stream_line(s->stream, 1), &copy, what);
	return 0;
}

static int stream_each_mark(const struct gpuctr_mark *mark, void *userdata)
{
	jsonl_mark(stream_line(((struct sinks *)userdata)->stream, 0), mark);
	return 0;
}

static int stream_each_process_end(const struct store_process *process, void *userdata)
{
	const struct gpuctr_process_end end = { .process = process->process.process,
						.clean = process->clean,
						.totals = process->totals };

	if (process->ended) {
		jsonl_process_end(stream_line(((struct sinks *)userdata)->stream, 0), &end);
	}
	return 0;
}

static int stream_each_notice(const struct gpuctr_notice *notice, void *userdata)
{
	stream_notice(((struct sinks *)userdata)->stream, notice);
	return 0;
}

void sinks_write_stream(struct sinks *s)
{
	struct scopes scopes = { 0 };
	const struct reading_handler handler = {
		.on_process = stream_each_process,
		.on_record = stream_each_record,
		.on_mark = stream_each_mark,
		.on_process_end = stream_each_process_end,
		.on_notice = stream_each_notice,
		.scopes = &scopes,
	};
	struct store_reader *reader = files_read(&s->files);
	const struct store_info *info;
	struct store_error error = { 0 };
	int r;

	if (!reader) {
		s->stream_is_cut = true;
		return;
	}
	info = store_info(reader);
	s->capture.plan = &info->plan;
	stream_wait(s->stream);
	r = reading_reader(reader, &handler, s, &error);
	scopes_deinit(&scopes);
	if (r) {
		say_unreadable(r, &error);
		s->stream_is_cut = true;
	}
	/* If the file has no end, there are no totals. */
	if (info->complete || info->end_code != GPUCTR_OK) {
		const struct gpuctr_end end = {
			.totals = info->totals,
			.processes = (unsigned)info->n_processes,
			.error = { info->end_code, info->end_message, "" },
		};

		jsonl_end(stream_line(s->stream, 0), &end);
	}
	/* The plan ends with the reader. */
	sinks_close_stream(s);
	store_reader_free(reader);
}
