/* SPDX-License-Identifier: Apache-2.0 */
#include "client/sampler/evaluator.h"

CUptiResult evaluate_image(const struct host *host, struct image *m,
			   const struct metrics_set *metrics)
{
	CUptiResult result = CUPTI_SUCCESS;

	while (m->evaluated < m->timed && result == CUPTI_SUCCESS) {
		result = host_evaluate(host, m->data, m->bytes, m->evaluated, metrics->v,
				       metrics->n, m->values + m->evaluated * m->n_metrics);
		m->evaluated += result == CUPTI_SUCCESS;
	}
	return result;
}

static void *work(void *data)
{
	struct evaluator *e = data;

	pthread_mutex_lock(&e->lock);
	while (!e->ends) {
		if (e->image) {
			struct image *image = e->image;
			const struct metrics_set *metrics = e->metrics;
			CUptiResult result;

			pthread_mutex_unlock(&e->lock);
			result = evaluate_image(e->host, image, metrics);
			(void)image_empty(image); /* else its next user does */
			pthread_mutex_lock(&e->lock);
			e->result = result;
			e->image = NULL;
			pthread_cond_broadcast(&e->changed);
		} else {
			pthread_cond_wait(&e->changed, &e->lock);
		}
	}
	pthread_mutex_unlock(&e->lock);
	return NULL;
}

void evaluator_start(struct evaluator *e, const struct host *host)
{
	e->host = host;
	pthread_mutex_init(&e->lock, NULL);
	pthread_cond_init(&e->changed, NULL);
	e->has_thread = pthread_create(&e->thread, NULL, work, e) == 0;
}

void evaluator_end(struct evaluator *e)
{
	if (!e->has_thread) {
		return;
	}
	pthread_mutex_lock(&e->lock);
	e->ends = true;
	pthread_cond_broadcast(&e->changed);
	pthread_mutex_unlock(&e->lock);
	pthread_join(e->thread, NULL);
	e->has_thread = false;
}

void evaluator_give(struct evaluator *e, struct image *image, const struct metrics_set *metrics)
{
	pthread_mutex_lock(&e->lock);
	e->image = image;
	e->metrics = metrics;
	pthread_cond_broadcast(&e->changed);
	pthread_mutex_unlock(&e->lock);
}

CUptiResult evaluator_wait(struct evaluator *e)
{
	CUptiResult result;

	pthread_mutex_lock(&e->lock);
	while (e->image) {
		pthread_cond_wait(&e->changed, &e->lock);
	}
	result = e->result;
	pthread_mutex_unlock(&e->lock);
	return result;
}
