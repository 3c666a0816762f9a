/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_BASE_LIST_H
#define GPUCTR_BASE_LIST_H

/* Intrusive doubly linked list. A struct list is a head when it is nobody's member, and a link when
 * it is; an initialised link points to itself, so that removing it twice is harmless. */

#include <stdbool.h>
#include <stddef.h>

struct list {
	struct list *next, *prev;
};

static inline void list_init(struct list *l)
{
	l->next = l->prev = l;
}

static inline bool list_is_empty(const struct list *l)
{
	return l->next == l;
}

static inline void list_append(struct list *head, struct list *link)
{
	link->prev = head->prev;
	link->next = head;
	head->prev->next = link;
	head->prev = link;
}

static inline void list_remove(struct list *link)
{
	link->prev->next = link->next;
	link->next->prev = link->prev;
	list_init(link);
}

#define list_entry(link, type, member) ((type *)((char *)(link)-offsetof(type, member)))

#define list_for_each(pos, head) \
	for (struct list *pos = (head)->next; pos != (head); pos = pos->next)

/* The current link may be removed, and freed, by the body; no other may. */
#define list_for_each_safe(pos, head)                                                 \
	for (struct list *pos = (head)->next, *pos##_next = pos->next; pos != (head); \
	     pos = pos##_next, pos##_next = pos->next)

#endif
