/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Intrusive doubly linked list. The same struct list is the head of a list and the link of a
 * member. An initialised link points to itself, so removing it twice is harmless. */

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

/* From the last member to the first. */
#define list_for_each_back(pos, head) \
	for (struct list *pos = (head)->prev; pos != (head); pos = pos->prev)

/* The body may remove and free the current member, and no other. */
#define list_for_each_safe(pos, head)                                                 \
	for (struct list *pos = (head)->next, *pos##_next = pos->next; pos != (head); \
	     pos = pos##_next, pos##_next = pos->next)
