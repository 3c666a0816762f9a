/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <unistd.h>

#include "daemon/broker/policy.h"

enum { SOMEBODY = 4711 };

static bool allows(const struct policy *p, struct credentials c)
{
	struct refusal r = { 0 };
	bool allowed = policy_allows(p, &c, &r);

	if (!allowed) { /* a refusal says why and what to do */
		assert_int_equal(r.code, GPUCTR_E_NOT_ALLOWED);
		assert_non_null(strstr(r.message, "4711"));
		assert_true(r.remedy[0] != '\0');
	}
	return allowed;
}

TEST(denies_by_default)
{
	const struct policy none = { 0 };

	assert_false(allows(&none, (struct credentials){ .uid = SOMEBODY, .gid = SOMEBODY }));
	assert_false(allows(&none, (struct credentials){ .uid = SOMEBODY,
							 .groups = (gid_t[]){ 0 },
							 .n_groups = 1 }));
	/* An empty slot of the lists is no grant to root's numbers. */
	assert_false(allows(&none, (struct credentials){ .uid = SOMEBODY, .gid = 0 }));
}

TEST(root_and_the_daemons_own_user_may)
{
	const struct policy none = { 0 };

	assert_true(allows(&none, (struct credentials){ .uid = 0, .gid = SOMEBODY }));
	assert_true(allows(&none, (struct credentials){ .uid = getuid(), .gid = SOMEBODY }));
}

TEST(named_users_and_everybody)
{
	struct policy p = { .allow.uids = { 1, SOMEBODY }, .allow.n_uids = 2 };

	assert_true(allows(&p, (struct credentials){ .uid = SOMEBODY, .gid = 9 }));
	p.allow.n_uids = 1;
	assert_false(allows(&p, (struct credentials){ .uid = SOMEBODY, .gid = 9 }));
	p.allow.everybody = true;
	assert_true(allows(&p, (struct credentials){ .uid = SOMEBODY, .gid = 9 }));
}

TEST(one_group_may_be_all)
{
	const struct policy others[] = {
		{ .allow = { .gids = { 50, 60 }, .n_gids = 2 } },
		{ .allow = { .gids = { 50 }, .n_gids = 1, .uids = { 1 }, .n_uids = 1 } },
		{ .allow = { .gids = { 50 }, .n_gids = 1, .everybody = true } },
		{ .allow = { .gids = { 50 }, .n_gids = 1 }, .monitor = { .n_uids = 1 } },
		{ .allow = { .gids = { 50 }, .n_gids = 1 },
		  .rules = { { .gid = 60 } },
		  .n_rules = 1 },
		{ .rules = { { .gid = 50 }, { .gid = 60 } }, .n_rules = 2 },
		{ .allow = { .gids = { 50 }, .n_gids = 1 }, .job_owners = true },
		{ .allow = { .gids = { 50 }, .n_gids = 1 }, .operator_captures = true },
	};
	struct policy p = { .rules = { { .gid = 50 } }, .n_rules = 1 };
	gid_t gid = 7;

	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		assert_false(policy_is_one_group(&others[i], &gid));
	}
	assert_int_equal(gid, 7);
	assert_true(policy_is_one_group(&p, &gid));
	assert_int_equal(gid, 50);
	p.allow = (struct policy_names){ .gids = { 50, 50 }, .n_gids = 2 };
	assert_true(policy_is_one_group(&p, &gid));
	p = (struct policy){ .device = { .everybody = true } }; /* which lets nobody in */
	assert_true(policy_is_one_group(&p, &gid));
	assert_int_equal(gid, (gid_t)-1);
}

TEST(named_groups_first_and_supplementary)
{
	struct policy p = { .allow.gids = { 50, 60 },
			    .allow.n_gids = 2,
			    .groups_text = "gpu or render" };
	struct credentials c = { .uid = SOMEBODY, .gid = 60 };
	gid_t groups[1000];
	struct refusal r;

	assert_true(allows(&p, c));
	c.gid = 61;
	assert_false(allows(&p, c));
	for (size_t i = 0; i < ARRAY_SIZE(groups); i++) {
		groups[i] = (gid_t)(1000 + i);
	}
	c.groups = groups;
	c.n_groups = ARRAY_SIZE(groups);
	assert_false(allows(&p, c));
	groups[ARRAY_SIZE(groups) - 1] = 50;
	assert_true(allows(&p, c));
	c.n_groups--; /* what lies behind the count does not count */
	assert_false(allows(&p, c));
	assert_false(policy_allows(&p, &c, &r));
	assert_non_null(strstr(r.remedy, "gpu or render"));
}

TEST(rules_give_some_gpus)
{
	const struct policy p = {
		.allow.gids = { 70 },
		.allow.n_gids = 1,
		.rules = { { .gid = 50, .n_gpus = 2, .gpus = { "0", "GPU-b" } },
			   { .gid = 60, .n_gpus = 1, .gpus = { "10" } } },
		.n_rules = 2,
	};
	struct credentials c = { .uid = SOMEBODY, .gid = 50 };
	gid_t other = 60;

	assert_true(allows(&p, c));
	assert_true(policy_allows_gpu(&p, &c, 0, "GPU-a"));
	assert_true(policy_allows_gpu(&p, &c, 1, "GPU-b"));
	assert_false(policy_allows_gpu(&p, &c, 1, "GPU-c"));
	assert_false(policy_allows_gpu(&p, &c, 10, "GPU-k"));
	c.groups = &other;
	c.n_groups = 1; /* admissions add up */
	assert_true(policy_allows_gpu(&p, &c, 0, "GPU-a"));
	assert_true(policy_allows_gpu(&p, &c, 10, "GPU-k"));
	assert_false(policy_allows_gpu(&p, &c, 1, "GPU-c"));
	other = 70;
	assert_true(policy_allows_gpu(&p, &c, 1, "GPU-c"));
	c = (struct credentials){ .uid = SOMEBODY, .gid = SOMEBODY };
	assert_false(allows(&p, c));
	assert_false(policy_allows_gpu(&p, &c, 0, "GPU-a"));
}

TEST(the_whole_device_needs_an_entitlement)
{
	struct policy p = { .allow.everybody = true };
	struct credentials c = { .uid = SOMEBODY, .gid = 50 };

	assert_false(policy_allows_device(&p, &c));
	p.device.gids[p.device.n_gids++] = 50;
	assert_true(policy_allows_device(&p, &c));
	c.gid = 51;
	assert_false(policy_allows_device(&p, &c));
	c.uid = 0; /* of a container */
	assert_false(policy_allows_device(&p, &c));
	c.host_root = true;
	assert_true(policy_allows_device(&p, &c));
}

/* Root as well needs the switch; neither a uid nor a container's root gets further by it. */
TEST(operators_are_named_and_on_this_machine)
{
	struct policy p = { .allow.everybody = true,
			    .operators.gids = { 50 },
			    .operators.n_gids = 1 };
	struct credentials root = { .uid = 0, .host_root = true, .of_host = true };
	struct credentials inside = { .uid = 0, .gid = 0 };
	struct credentials c = { .uid = SOMEBODY, .gid = 50, .of_host = true };
	gid_t other = 50;

	assert_false(policy_operates(&p, &root) || policy_operates(&p, &c));
	p.operator_captures = true;
	assert_true(policy_operates(&p, &root));
	assert_true(policy_operates(&p, &c));
	assert_false(policy_operates(&p, &inside));
	c.of_host = false;
	assert_true(policy_names_operator(&p, &c));
	assert_false(policy_operates(&p, &c));
	c = (struct credentials){ .uid = 50, .gid = 51, .of_host = true };
	assert_false(policy_operates(&p, &c));
	c.groups = &other;
	c.n_groups = 1;
	assert_true(policy_operates(&p, &c));
	p.operators.n_gids = 0;
	assert_false(policy_operates(&p, &c));
	assert_true(policy_operates(&p, &root));
}
