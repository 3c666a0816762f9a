/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/nvidia/aliases.h"

#include <fnmatch.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

/* A name of nvprof's stands for one metric, or for several from which the value is computed.
 * NVIDIA's table of old and new names is in the documentation of Nsight Compute; where GH100 lacks
 * a metric of it, its own for the same is taken, and names without a counterpart there are left
 * out. Words are what people type who look for a metric; each has globs of base names that match
 * few enough to be read. Both lists are sorted by name. */

static const struct alias aliases[] = {
	{ "achieved_occupancy", "sm__warps_active.avg.pct_of_peak_sustained_active", NULL },
	{ "active_cycles", "sm__cycles_active.sum", NULL },
	{ "active_warps", "smsp__warps_active.sum", NULL },
	{ "atomic_transactions",
	  "l1tex__t_set_accesses_pipe_lsu_mem_global_op_atom.sum"
	  " l1tex__t_set_accesses_pipe_lsu_mem_global_op_red.sum",
	  "their sum" },
	{ "branch_efficiency", "smsp__sass_average_branch_targets_threads_uniform.pct", NULL },
	{ "cf_executed", "smsp__inst_executed_pipe_cbu.sum smsp__inst_executed_pipe_adu.sum",
	  "their sum" },
	{ "double_precision_fu_utilization",
	  "smsp__inst_executed_pipe_fp64.avg.pct_of_peak_sustained_active", NULL },
	{ "dram_read_bytes", "dram__bytes_read.sum", NULL },
	{ "dram_read_throughput", "dram__bytes_read.sum.per_second", NULL },
	{ "dram_read_transactions", "dram__sectors_read.sum", NULL },
	{ "dram_utilization", "dram__throughput.avg.pct_of_peak_sustained_elapsed", NULL },
	{ "dram_write_bytes", "dram__bytes_write.sum", NULL },
	{ "dram_write_throughput", "dram__bytes_write.sum.per_second", NULL },
	{ "dram_write_transactions", "dram__sectors_write.sum", NULL },
	{ "elapsed_cycles_sm", "sm__cycles_elapsed.sum", NULL },
	{ "eligible_warps_per_cycle", "smsp__warps_eligible.sum.per_cycle_active", NULL },
	{ "flop_count_dp",
	  "smsp__sass_thread_inst_executed_op_dadd_pred_on.sum"
	  " smsp__sass_thread_inst_executed_op_dmul_pred_on.sum"
	  " smsp__sass_thread_inst_executed_op_dfma_pred_on.sum",
	  "add + mul + 2 fma" },
	{ "flop_count_dp_add", "smsp__sass_thread_inst_executed_op_dadd_pred_on.sum", NULL },
	{ "flop_count_dp_fma", "smsp__sass_thread_inst_executed_op_dfma_pred_on.sum", NULL },
	{ "flop_count_dp_mul", "smsp__sass_thread_inst_executed_op_dmul_pred_on.sum", NULL },
	{ "flop_count_hp",
	  "smsp__sass_thread_inst_executed_op_hadd_pred_on.sum"
	  " smsp__sass_thread_inst_executed_op_hmul_pred_on.sum"
	  " smsp__sass_thread_inst_executed_op_hfma_pred_on.sum",
	  "add + mul + 2 fma" },
	{ "flop_count_hp_add", "smsp__sass_thread_inst_executed_op_hadd_pred_on.sum", NULL },
	{ "flop_count_hp_fma", "smsp__sass_thread_inst_executed_op_hfma_pred_on.sum", NULL },
	{ "flop_count_hp_mul", "smsp__sass_thread_inst_executed_op_hmul_pred_on.sum", NULL },
	{ "flop_count_sp",
	  "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum"
	  " smsp__sass_thread_inst_executed_op_fmul_pred_on.sum"
	  " smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",
	  "add + mul + 2 fma" },
	{ "flop_count_sp_add", "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum", NULL },
	{ "flop_count_sp_fma", "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum", NULL },
	{ "flop_count_sp_mul", "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum", NULL },
	{ "flop_dp_efficiency",
	  "smsp__sass_thread_inst_executed_ops_dadd_dmul_dfma_pred_on.avg.pct_of_peak_sustained_"
	  "elapsed",
	  NULL },
	{ "flop_hp_efficiency",
	  "smsp__sass_thread_inst_executed_ops_hadd_hmul_hfma_pred_on.avg.pct_of_peak_sustained_"
	  "elapsed",
	  NULL },
	{ "flop_sp_efficiency",
	  "smsp__sass_thread_inst_executed_ops_fadd_fmul_ffma_pred_on.avg.pct_of_peak_sustained_"
	  "elapsed",
	  NULL },
	{ "gld_efficiency", "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct", NULL },
	{ "gld_requested_throughput", "smsp__sass_data_bytes_mem_global_op_ld.sum.per_second",
	  NULL },
	{ "gld_throughput", "l1tex__t_bytes_pipe_lsu_mem_global_op_ld.sum.per_second", NULL },
	{ "gld_transactions", "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", NULL },
	{ "gld_transactions_per_request",
	  "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio", NULL },
	{ "global_atomic_requests", "l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum", NULL },
	{ "global_hit_rate", "l1tex__t_sector_pipe_lsu_mem_global_op_ld_hit_rate.pct", NULL },
	{ "global_load_requests", "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", NULL },
	{ "global_reduction_requests", "l1tex__t_requests_pipe_lsu_mem_global_op_red.sum", NULL },
	{ "global_store_requests", "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum", NULL },
	{ "gst_efficiency", "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.pct", NULL },
	{ "gst_requested_throughput", "smsp__sass_data_bytes_mem_global_op_st.sum.per_second",
	  NULL },
	{ "gst_throughput", "l1tex__t_bytes_pipe_lsu_mem_global_op_st.sum.per_second", NULL },
	{ "gst_transactions", "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum", NULL },
	{ "gst_transactions_per_request",
	  "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio", NULL },
	{ "half_precision_fu_utilization",
	  "smsp__inst_executed_pipe_fp16.avg.pct_of_peak_sustained_active", NULL },
	{ "inst_bit_convert", "smsp__sass_thread_inst_executed_op_conversion_pred_on.sum", NULL },
	{ "inst_compute_ld_st", "smsp__sass_thread_inst_executed_op_memory_pred_on.sum", NULL },
	{ "inst_control", "smsp__sass_thread_inst_executed_op_control_pred_on.sum", NULL },
	{ "inst_executed", "smsp__inst_executed.sum", NULL },
	{ "inst_executed_global_atomics", "smsp__sass_inst_executed_op_global_atom.sum", NULL },
	{ "inst_executed_global_loads", "smsp__inst_executed_op_global_ld.sum", NULL },
	{ "inst_executed_global_reductions", "smsp__inst_executed_op_global_red.sum", NULL },
	{ "inst_executed_global_stores", "smsp__inst_executed_op_global_st.sum", NULL },
	{ "inst_executed_local_loads", "smsp__inst_executed_op_local_ld.sum", NULL },
	{ "inst_executed_local_stores", "smsp__inst_executed_op_local_st.sum", NULL },
	{ "inst_executed_shared_atomics", "smsp__inst_executed_op_shared_atom.sum", NULL },
	{ "inst_executed_shared_loads", "smsp__inst_executed_op_shared_ld.sum", NULL },
	{ "inst_executed_shared_stores", "smsp__inst_executed_op_shared_st.sum", NULL },
	{ "inst_executed_surface_atomics", "smsp__inst_executed_op_surface_atom.sum", NULL },
	{ "inst_executed_surface_loads", "smsp__inst_executed_op_surface_ld.sum", NULL },
	{ "inst_executed_surface_reductions", "smsp__inst_executed_op_surface_red.sum", NULL },
	{ "inst_executed_surface_stores", "smsp__inst_executed_op_surface_st.sum", NULL },
	{ "inst_executed_tex_ops", "smsp__inst_executed_op_texture.sum", NULL },
	{ "inst_fp_16", "smsp__sass_thread_inst_executed_op_fp16_pred_on.sum", NULL },
	{ "inst_fp_32", "smsp__sass_thread_inst_executed_op_fp32_pred_on.sum", NULL },
	{ "inst_fp_64", "smsp__sass_thread_inst_executed_op_fp64_pred_on.sum", NULL },
	{ "inst_integer", "smsp__sass_thread_inst_executed_op_integer_pred_on.sum", NULL },
	{ "inst_inter_thread_communication",
	  ""
	  "smsp__sass_thread_inst_executed_op_inter_thread_communication_pred_on.sum",
	  NULL },
	{ "inst_issued", "smsp__inst_issued.sum", NULL },
	{ "inst_misc", "smsp__sass_thread_inst_executed_op_misc_pred_on.sum", NULL },
	{ "inst_per_warp", "smsp__average_inst_executed_per_warp.ratio", NULL },
	{ "ipc", "smsp__inst_executed.avg.per_cycle_active", NULL },
	{ "issue_slot_utilization", "smsp__issue_active.avg.pct_of_peak_sustained_active", NULL },
	{ "issue_slots", "smsp__inst_issued.sum", NULL },
	{ "issued_ipc", "smsp__inst_issued.avg.per_cycle_active", NULL },
	{ "l1_sm_lg_utilization", "l1tex__lsu_writeback_active.avg.pct_of_peak_sustained_active",
	  NULL },
	{ "l2_atomic_throughput",
	  "lts__t_sectors_op_atom.sum.per_second"
	  " lts__t_sectors_op_red.sum.per_second",
	  "twice their sum, 32 bytes a sector" },
	{ "l2_atomic_transactions",
	  "lts__t_sectors_op_atom.sum"
	  " lts__t_sectors_op_red.sum",
	  "twice their sum" },
	{ "l2_global_atomic_store_bytes",
	  "l1tex__t_bytes_pipe_lsu_mem_global_op_atom_lookup_miss.sum", NULL },
	{ "l2_global_load_bytes", "l1tex__t_bytes_pipe_lsu_mem_global_op_ld_lookup_miss.sum",
	  NULL },
	{ "l2_global_reduction_bytes", "l1tex__t_bytes_pipe_lsu_mem_global_op_red_lookup_miss.sum",
	  NULL },
	{ "l2_local_global_store_bytes",
	  "l1tex__t_bytes_pipe_lsu_mem_local_op_st_lookup_miss.sum"
	  " l1tex__t_bytes_pipe_lsu_mem_global_op_st_lookup_miss.sum",
	  "their sum" },
	{ "l2_local_load_bytes", "l1tex__t_bytes_pipe_lsu_mem_local_op_ld_lookup_miss.sum", NULL },
	{ "l2_read_throughput",
	  "lts__t_sectors_op_read.sum.per_second"
	  " lts__t_sectors_op_atom.sum.per_second"
	  " lts__t_sectors_op_red.sum.per_second",
	  "their sum, 32 bytes a sector" },
	{ "l2_read_transactions",
	  "lts__t_sectors_op_read.sum"
	  " lts__t_sectors_op_atom.sum"
	  " lts__t_sectors_op_red.sum",
	  "their sum" },
	{ "l2_surface_atomic_store_bytes",
	  "l1tex__t_bytes_pipe_tex_mem_surface_op_atom_lookup_miss.sum", NULL },
	{ "l2_surface_load_bytes", "l1tex__t_bytes_pipe_tex_mem_surface_op_ld_lookup_miss.sum",
	  NULL },
	{ "l2_surface_reduction_bytes",
	  "l1tex__t_bytes_pipe_tex_mem_surface_op_red_lookup_miss.sum", NULL },
	{ "l2_surface_store_bytes", "l1tex__t_bytes_pipe_tex_mem_surface_op_st_lookup_miss.sum",
	  NULL },
	{ "l2_tex_hit_rate", "lts__t_sector_hit_rate.pct", NULL },
	{ "l2_tex_read_hit_rate", "lts__t_sector_op_read_hit_rate.pct", NULL },
	{ "l2_tex_read_throughput", "lts__t_sectors_srcunit_tex_op_read.sum.per_second",
	  "32 bytes a sector" },
	{ "l2_tex_read_transactions", "lts__t_sectors_srcunit_tex_op_read.sum", NULL },
	{ "l2_tex_write_hit_rate", "lts__t_sector_op_write_hit_rate.pct", NULL },
	{ "l2_tex_write_throughput", "lts__t_sectors_srcunit_tex_op_write.sum.per_second",
	  "32 bytes a sector" },
	{ "l2_tex_write_transactions", "lts__t_sectors_srcunit_tex_op_write.sum", NULL },
	{ "l2_utilization", "lts__t_sectors.avg.pct_of_peak_sustained_elapsed", NULL },
	{ "l2_write_throughput",
	  "lts__t_sectors_op_write.sum.per_second"
	  " lts__t_sectors_op_atom.sum.per_second"
	  " lts__t_sectors_op_red.sum.per_second",
	  "their sum, 32 bytes a sector" },
	{ "l2_write_transactions",
	  "lts__t_sectors_op_write.sum"
	  " lts__t_sectors_op_atom.sum"
	  " lts__t_sectors_op_red.sum",
	  "their sum" },
	{ "ldst_fu_utilization", "smsp__inst_executed_pipe_lsu.avg.pct_of_peak_sustained_active",
	  NULL },
	{ "local_hit_rate",
	  "l1tex__t_sector_pipe_lsu_mem_local_op_ld_hit_rate.pct"
	  " l1tex__t_sector_pipe_lsu_mem_local_op_st_hit_rate.pct",
	  "loads and stores apart" },
	{ "local_load_requests", "l1tex__t_requests_pipe_lsu_mem_local_op_ld.sum", NULL },
	{ "local_load_throughput", "l1tex__t_bytes_pipe_lsu_mem_local_op_ld.sum.per_second", NULL },
	{ "local_load_transactions", "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum", NULL },
	{ "local_load_transactions_per_request",
	  "l1tex__average_t_sectors_per_request_pipe_lsu_mem_local_op_ld.ratio", NULL },
	{ "local_store_requests", "l1tex__t_requests_pipe_lsu_mem_local_op_st.sum", NULL },
	{ "local_store_throughput", "l1tex__t_bytes_pipe_lsu_mem_local_op_st.sum.per_second",
	  NULL },
	{ "local_store_transactions", "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum", NULL },
	{ "local_store_transactions_per_request",
	  "l1tex__average_t_sectors_per_request_pipe_lsu_mem_local_op_st.ratio", NULL },
	{ "nvlink_overhead_data_received",
	  "nvlrx__bytes_data_protocol.sum"
	  " nvlrx__bytes.sum",
	  "the first of the second" },
	{ "nvlink_overhead_data_transmitted",
	  "nvltx__bytes_data_protocol.sum"
	  " nvltx__bytes.sum",
	  "the first of the second" },
	{ "nvlink_receive_throughput", "nvlrx__bytes.sum.per_second", NULL },
	{ "nvlink_total_data_received", "nvlrx__bytes.sum", NULL },
	{ "nvlink_total_data_transmitted", "nvltx__bytes.sum", NULL },
	{ "nvlink_transmit_throughput", "nvltx__bytes.sum.per_second", NULL },
	{ "nvlink_user_data_received", "nvlrx__bytes_data_user.sum", NULL },
	{ "nvlink_user_data_transmitted", "nvltx__bytes_data_user.sum", NULL },
	{ "pcie_total_data_received", "pcie__read_bytes.sum", NULL },
	{ "pcie_total_data_transmitted", "pcie__write_bytes.sum", NULL },
	{ "shared_efficiency", "smsp__sass_average_data_bytes_per_wavefront_mem_shared.pct", NULL },
	{ "shared_ld_bank_conflict", "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
	  NULL },
	{ "shared_load_throughput",
	  "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum.per_second",
	  "128 bytes a wavefront" },
	{ "shared_load_transactions", "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
	  NULL },
	{ "shared_st_bank_conflict", "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
	  NULL },
	{ "shared_store_throughput",
	  "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum.per_second",
	  "128 bytes a wavefront" },
	{ "shared_store_transactions", "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
	  NULL },
	{ "shared_utilization",
	  ""
	  "l1tex__data_pipe_lsu_wavefronts_mem_shared.avg.pct_of_peak_sustained_elapsed",
	  NULL },
	{ "single_precision_fu_utilization",
	  "smsp__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active", NULL },
	{ "sm_efficiency", "smsp__cycles_active.avg.pct_of_peak_sustained_elapsed", NULL },
	{ "sm_tex_utilization",
	  "l1tex__texin_sm2tex_req_cycles_active.avg.pct_of_peak_sustained_elapsed", NULL },
	{ "special_fu_utilization", "smsp__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active",
	  NULL },
	{ "stall_constant_memory_dependency",
	  "smsp__average_warps_issue_stalled_imc_miss_per_issue_active.ratio", NULL },
	{ "stall_exec_dependency",
	  "smsp__average_warps_issue_stalled_wait_per_issue_active.ratio"
	  " smsp__average_warps_issue_stalled_short_scoreboard_per_issue_active.ratio",
	  "their sum" },
	{ "stall_inst_fetch",
	  ""
	  "smsp__average_warps_issue_stalled_no_instruction_per_issue_active.ratio",
	  NULL },
	{ "stall_memory_dependency",
	  ""
	  "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio",
	  NULL },
	{ "stall_memory_throttle",
	  "smsp__average_warps_issue_stalled_drain_per_issue_active.ratio"
	  " smsp__average_warps_issue_stalled_lg_throttle_per_issue_active.ratio",
	  "their sum" },
	{ "stall_not_selected",
	  "smsp__average_warps_issue_stalled_not_selected_per_issue_active.ratio", NULL },
	{ "stall_other",
	  "smsp__average_warps_issue_stalled_dispatch_stall_per_issue_active.ratio"
	  " smsp__average_warps_issue_stalled_misc_per_issue_active.ratio",
	  "their sum" },
	{ "stall_pipe_busy",
	  "smsp__average_warps_issue_stalled_math_pipe_throttle_per_issue_active.ratio"
	  " smsp__average_warps_issue_stalled_mio_throttle_per_issue_active.ratio",
	  "their sum" },
	{ "stall_sleeping", "smsp__average_warps_issue_stalled_sleeping_per_issue_active.ratio",
	  NULL },
	{ "stall_sync",
	  "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio"
	  " smsp__average_warps_issue_stalled_membar_per_issue_active.ratio",
	  "their sum" },
	{ "stall_texture", "smsp__average_warps_issue_stalled_tex_throttle_per_issue_active.ratio",
	  NULL },
	{ "surface_atomic_requests", "l1tex__t_requests_pipe_tex_mem_surface_op_atom.sum", NULL },
	{ "surface_load_requests", "l1tex__t_requests_pipe_tex_mem_surface_op_ld.sum", NULL },
	{ "surface_reduction_requests", "l1tex__t_requests_pipe_tex_mem_surface_op_red.sum", NULL },
	{ "surface_store_requests", "l1tex__t_requests_pipe_tex_mem_surface_op_st.sum", NULL },
	{ "sysmem_read_bytes", "lts__t_sectors_aperture_sysmem_op_read.sum", "32 bytes a sector" },
	{ "sysmem_read_throughput", "lts__t_sectors_aperture_sysmem_op_read.sum.per_second",
	  "32 bytes a sector" },
	{ "sysmem_read_transactions", "lts__t_sectors_aperture_sysmem_op_read.sum", NULL },
	{ "sysmem_write_bytes", "lts__t_sectors_aperture_sysmem_op_write.sum",
	  "32 bytes a sector" },
	{ "sysmem_write_throughput", "lts__t_sectors_aperture_sysmem_op_write.sum.per_second",
	  "32 bytes a sector" },
	{ "sysmem_write_transactions", "lts__t_sectors_aperture_sysmem_op_write.sum", NULL },
	{ "tensor_precision_fu_utilization",
	  "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active", NULL },
	{ "tex_cache_hit_rate", "l1tex__t_sector_hit_rate.pct", NULL },
	{ "tex_cache_transactions",
	  "l1tex__lsu_writeback_active.sum l1tex__tex_writeback_active.sum", "their sum" },
	{ "tex_fu_utilization", "smsp__inst_executed_pipe_tex.avg.pct_of_peak_sustained_active",
	  NULL },
	{ "tex_sm_tex_utilization",
	  "l1tex__f_tex2sm_cycles_active.avg.pct_of_peak_sustained_elapsed", NULL },
	{ "tex_sm_utilization", "sm__mio2rf_writeback_active.avg.pct_of_peak_sustained_elapsed",
	  NULL },
	{ "texture_load_requests", "l1tex__t_requests_pipe_tex_mem_texture.sum", NULL },
	{ "warp_execution_efficiency", "smsp__thread_inst_executed_per_inst_executed.ratio",
	  "of 32 threads" },
	{ "warp_nonpred_execution_efficiency",
	  "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio", "of 32 threads" },
	{ "warps_launched", "smsp__warps_launched.sum", NULL },
};

static const struct alias words[] = {
	{ "bandwidth", "dram__bytes* dram__throughput lts__t_bytes l1tex__t_bytes", NULL },
	{ "cache",
	  "l1tex__t_sector_hit_rate l1tex__t_sector_pipe_lsu_mem_*_hit_rate"
	  " lts__t_sector_hit_rate lts__t_sector_op_*_hit_rate",
	  NULL },
	{ "clock", "*cycles_elapsed", NULL },
	{ "coalescing", "*average_data_bytes_per_sector*", NULL },
	{ "divergence", "smsp__thread_inst_executed_per_inst_executed *branch_targets*", NULL },
	{ "duration", "gpu__time_duration", NULL },
	{ "flop",
	  "kineto__cuda_core_flops"
	  " smsp__sass_thread_inst_executed_op_?add_pred_on"
	  " smsp__sass_thread_inst_executed_op_?mul_pred_on"
	  " smsp__sass_thread_inst_executed_op_?fma_pred_on",
	  NULL },
	{ "frequency", "*cycles_elapsed", NULL },
	{ "global memory", "*mem_global*", NULL },
	{ "gmem", "*mem_global*", NULL },
	{ "hbm", "dram__*", NULL },
	{ "l1",
	  "l1tex__t_bytes l1tex__t_requests l1tex__t_sectors"
	  " l1tex__t_sector_hit_rate l1tex__throughput"
	  " l1tex__t_bytes_pipe_lsu_mem_*",
	  NULL },
	{ "l2",
	  "lts__t_bytes lts__t_requests lts__t_sectors lts__t_sectors_op_*"
	  " lts__t_sector_hit_rate lts__t_sector_op_* lts__throughput",
	  NULL },
	{ "local memory", "*mem_local*", NULL },
	{ "occupancy", "sm__warps_active smsp__warps_active", NULL },
	{ "shared memory", "*mem_shared*", NULL },
	{ "smem", "*mem_shared*", NULL },
	{ "spill", "*mem_local*", NULL },
	{ "tensor core", "*pipe_tensor*", NULL },
	{ "tensor cores", "*pipe_tensor*", NULL },
	{ "time", "gpu__time_duration", NULL },
	{ "utilization",
	  "sm__throughput l1tex__throughput lts__throughput dram__throughput"
	  " gpu__compute_memory_throughput",
	  NULL },
	{ "vram", "dram__*", NULL },
};

enum {
	N_ALIASES = sizeof(aliases) / sizeof(aliases[0]),
	N_WORDS = sizeof(words) / sizeof(words[0])
};

const struct alias *alias_at(unsigned i)
{
	return i < N_ALIASES ? &aliases[i] : i < N_ALIASES + N_WORDS ? &words[i - N_ALIASES] : NULL;
}

const struct alias *alias_find(const char *name)
{
	const struct alias *alias;

	for (unsigned i = 0; (alias = alias_at(i)); i++) {
		if (strcasecmp(alias->name, name) == 0) {
			return alias;
		}
	}
	return NULL;
}

bool alias_is_of_nvprof(const struct alias *alias)
{
	return alias >= aliases && alias < aliases + N_ALIASES;
}

const char *alias_of_launch(const char *name)
{
	return strncmp(name, "launch__", strlen("launch__")) == 0
		       ? "Every record has its launch, whatever the metrics: grid, block, "
			 "registers, "
			 "static_shared_bytes, dynamic_shared_bytes, device, context and stream."
		       : NULL;
}

/* Checks each metric that the alias stands for, without its rollup. */
bool alias_covers(const struct alias *alias, const char *base)
{
	char part[128];

	for (const char *p = alias->means; *p; p += strcspn(p, " "), p += *p == ' ') {
		size_t n = strcspn(p, ". ");

		if (n < sizeof(part)) {
			memcpy(part, p, n);
			part[n] = '\0';
			if (fnmatch(part, base, 0) == 0) {
				return true;
			}
		}
	}
	return false;
}
