/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "proto/base/clean.h"
#include "proto/nvidia/catalogue.h"

/* Presets and derived metrics. A preset is a set that fits into one pass on GH100
 * (tests/unit/test_plan.c checks that with the real library). A term that a chip does not have is
 * left out. If the remaining terms would not fit the preset's purpose, the preset is refused: bytes
 * alone are no roofline.
 *
 * Operations of the tensor pipe are counted by precision, and the number of precisions that fit
 * into one pass depends on the chip. Volta and Turing count all their precisions, Ampere, Ada and
 * Blackwell one. Hopper counts wgmma operations in all precisions, and mma.sync operations, which
 * share a counter, in one: bf16 is complete, fp16 and tf32 lack mma.sync, and fp64, which has only
 * mma.sync, is not counted (CUPTI 13.0). SASS patching counts the operations of the FP32, FP64 and
 * FP16 pipes, which needs a separate pass on every chip.
 *
 * kineto__*: the names PyTorch's profiler used for the same sums. Floating-point operations follow
 * CUPTI's instruction counters: an FMA counts twice. tensor_flops counts the tensor pipe's
 * operations in the named precisions, with multiply and add as two. */

static const struct catalogue_named named[] = {
	{ "memory",
	  "DRAM bytes and L2 sectors, read and written",
	  GPUCTR_METRIC_PRESET,
	  "",
	  { { "dram__bytes_read.sum", 1 },
	    { "dram__bytes_write.sum", 1 },
	    { "lts__t_sectors_op_read.sum", 1 },
	    { "lts__t_sectors_op_write.sum", 1 } } },
	{ "compute",
	  "instructions and how busy the multiprocessors are, with DRAM bytes",
	  GPUCTR_METRIC_PRESET,
	  "",
	  { { "sm__inst_executed.sum", 1 },
	    { "sm__cycles_active.avg", 1 },
	    { "sm__cycles_elapsed.max", 1 },
	    { "dram__bytes_read.sum", 1 },
	    { "dram__bytes_write.sum", 1 } } },
	{ "tensor",
	  "tensor-pipe instructions with DRAM bytes",
	  GPUCTR_METRIC_PRESET,
	  "",
	  { { "sm__inst_executed_pipe_tensor.sum", 1 },
	    { "dram__bytes_read.sum", 1 },
	    { "dram__bytes_write.sum", 1 } },
	  .whole = true },
	{ "roofline",
	  "tensor-pipe operations with DRAM bytes: in all precisions before GA100, on GH100 in "
	  "bf16 and fp8 and by wgmma in fp16 and tf32, else in bf16 alone",
	  GPUCTR_METRIC_PRESET,
	  "",
	  { { "sm__ops_path_tensor_src_bf16_dst_fp32.sum", 1, "GA GH AD GB" },
	    { "sm__ops_path_tensor_op_hgmma_src_fp16.sum", 1, "GH" },
	    { "sm__ops_path_tensor_op_hgmma_src_tf32_dst_fp32.sum", 1, "GH" },
	    { "sm__ops_path_tensor_src_fp8.sum", 1, "GH" },
	    { "sm__ops_path_tensor_src_fp16_bf16_tf32_dst_fp32.sum", 1, "TU" },
	    { "sm__ops_path_tensor_src_fp16_dst_fp32.sum", 1, "GV" },
	    { "sm__ops_path_tensor_src_fp16_dst_fp16.sum", 1, "GV TU" },
	    { "dram__bytes_read.sum", 1 },
	    { "dram__bytes_write.sum", 1 } },
	  .whole = true },
	{ "flops",
	  "floating-point instructions by SASS counting",
	  GPUCTR_METRIC_PRESET,
	  "",
	  { { "kineto__cuda_core_flops", 1 } } },
	{ "kineto__tensor_core_insts",
	  "sm__inst_executed_pipe_tensor.sum under the name PyTorch used",
	  GPUCTR_METRIC_DERIVED,
	  "inst",
	  { { "sm__inst_executed_pipe_tensor.sum", 1 } } },
	{ "kineto__cuda_core_flops",
	  "FLOP outside the tensor cores: add + mul + 2 fma, half, single and double",
	  GPUCTR_METRIC_DERIVED,
	  "FLOP",
	  { { "smsp__sass_thread_inst_executed_op_hadd_pred_on.sum", 1 },
	    { "smsp__sass_thread_inst_executed_op_hmul_pred_on.sum", 1 },
	    { "smsp__sass_thread_inst_executed_op_hfma_pred_on.sum", 2 },
	    { "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum", 1 },
	    { "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum", 1 },
	    { "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum", 2 },
	    { "smsp__sass_thread_inst_executed_op_dadd_pred_on.sum", 1 },
	    { "smsp__sass_thread_inst_executed_op_dmul_pred_on.sum", 1 },
	    { "smsp__sass_thread_inst_executed_op_dfma_pred_on.sum", 2 } } },
	{ 0 },
};

const struct catalogue_named *catalogue_named_at(size_t i)
{
	return i + 1 < ARRAY_SIZE(named) ? &named[i] : NULL;
}

const struct catalogue_named *catalogue_find_named(const char *name)
{
	for (size_t i = 0; i + 1 < ARRAY_SIZE(named); i++) {
		if (strcmp(named[i].name, name) == 0) {
			return &named[i];
		}
	}
	return NULL;
}
