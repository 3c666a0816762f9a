/* SPDX-License-Identifier: Apache-2.0 */

/* Names that differ never look the same, at any width, and never take more than it. */

#include "tests/unit/unit.h"

#include <locale.h>

#include "client/cli/text.h"
#include "client/report/names.h"

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void expect_apart(const char *const *texts, size_t n, size_t width, bool kernels)
{
	char **shown = names_shorten(texts, n, width, kernels);

	assert_non_null(shown);
	for (size_t i = 0; i < n; i++) {
		if (text_width(shown[i], strlen(shown[i])) > width) {
			fail_msg("wider than %zu: %s", width, shown[i]);
		}
	}
	qsort(shown, n, sizeof(*shown), compare);
	for (size_t i = 1; i < n; i++) {
		if (strcmp(shown[i - 1], shown[i]) == 0) {
			fail_msg("two look like this in %zu columns: %s", width, shown[i]);
		}
	}
	names_free(shown, n);
}

/* As they come in deep learning, and as nobody would wish. */
static const char *const kernels[] = {
	"void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, "
	"std::array<char*, 1ul> >(int, at::native::FillFunctor<float>, std::array<char*, 1ul>)",
	"void at::native::vectorized_elementwise_kernel<8, at::native::FillFunctor<float>, "
	"std::array<char*, 1ul> >(int, at::native::FillFunctor<float>, std::array<char*, 1ul>)",
	"void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, "
	"std::array<char*, 2ul> >(int, at::native::FillFunctor<float>, std::array<char*, 2ul>)",
	"void other::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, "
	"std::array<char*, 1ul> >(int, at::native::FillFunctor<float>, std::array<char*, 1ul>)",
	"sm90_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x64_"
	"cgasize"
	"1x1x1_stage4_warpgroupsize2x1x1_g1_execute_segment_k_off_kernel__5x_cudnn",
	"sm90_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x256x64_"
	"cgasize"
	"1x1x1_stage4_warpgroupsize2x1x1_g1_execute_segment_k_off_kernel__5x_cudnn",
	"sm90_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x64_"
	"cgasize"
	"1x1x1_stage3_warpgroupsize2x1x1_g1_execute_segment_k_off_kernel__5x_cudnn",
	"triton_poi_fused_add_relu_3",
	"triton_poi_fused_add_relu_4",
	"triton_poi_fused__native_batch_norm_legit_functional_add_relu_threshold_backward_3",
	"triton_poi_fused__native_batch_norm_legit_functional_add_relu_threshold_backward_4",
	"triton_red_fused__native_batch_norm_legit_functional_add_relu_threshold_backward_4",
	"fusion_12",
	"fusion_1",
	"loop_add_fusion",
	"loop_add_fusion_1",
	"input_reduce_fusion_3",
	"void "
	"cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8>("
	"cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8::Params)",
	"void "
	"cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align4>("
	"cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align4::Params)",
	"void "
	"cutlass::Kernel<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8>("
	"cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8::Params)",
	"cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8",
	"nvjet_tst_128x256_64x4_2x1_v_bz_coopA_TNT",
	"nvjet_tst_128x256_64x4_2x1_v_bz_coopA_NNT",
	"nvjet_tst_128x192_64x4_2x1_v_bz_coopA_TNT",
	"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_"
	"segment_k_off_kernel__5x_cublas",
	"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_"
	"segment_k_off_kernel__5x_cudnn",
	"internal::gemvx::kernel<int, float, 7>",
	"other::gemvx::kernel<int, float, 7>",
	"internal::gemv::kernel<int, float, 7>",
	"void cutlass::device_kernel<flash::enable_sm90_or_later<flash::Fwd<2> > >(flash::Fwd<2>)",
	"void flash::Fwd<2>(int)",
	"f(int)",
	"f(float)",
	"f",
	"void f(int)",
	"\x1b[31mred",
	"\\x1b[31mred",
	"\xe6\xa0\xb8\xe5\xbf\x83\xe6\xa0\xb8\xe5\xbf\x83\xe6\xa0\xb8\xe5\xbf\x83\xe6\xa0\xb8\xe5"
	"\xbf\x83_a",
	"\xe6\xa0\xb8\xe5\xbf\x83\xe6\xa0\xb8\xe5\xbf\x83\xe6\xa0\xb8\xe5\xbf\x83\xe6\xa0\xb8\xe5"
	"\xbf\x83_b",
	"",
	" ",
	"\xff\xfe",
	"a~2",
	"a",
	"na",
};

enum { N_KERNELS = sizeof(kernels) / sizeof(kernels[0]) };

TEST(names_stay_apart_at_any_width)
{
	for (size_t width = NAMES_MIN_WIDTH; width <= 300; width++) {
		expect_apart(kernels, N_KERNELS, width, true);
		expect_apart(kernels, N_KERNELS, width, false);
	}
}

/* Names made of few pieces, so that many share their begin, their end, or both. */
TEST(made_up_names_stay_apart)
{
	static const char *const pieces[] = { "at::native::", "<4, ",	  "float",
					      "double",	      ">",	  "(int)",
					      "kernel_",      "void ",	  "/",
					      "aten::",	      "Kernel2<", "kernel<",
					      "tilesize",     "_1",	  "_12" };
	enum { N = 300, LENGTH = 200 };
	static char texts[N][LENGTH + 32];
	const char *list[N];
	unsigned seed = 20261121;
	size_t n = 0;

	while (n < N) {
		unsigned count = 3 + (unsigned)rand_r(&seed) % 24;
		bool known = false;

		texts[n][0] = '\0';
		for (unsigned i = 0; i < count && strlen(texts[n]) < LENGTH; i++) {
			strcat(texts[n], pieces[(unsigned)rand_r(&seed) % 15]);
		}
		for (size_t i = 0; i < n && !known; i++) {
			known = strcmp(texts[i], texts[n]) == 0;
		}
		list[n] = texts[n];
		n += !known;
	}
	for (size_t width = NAMES_MIN_WIDTH; width <= 300; width++) {
		expect_apart(list, N, width, width % 2);
	}
}

TEST(what_differs_is_shown)
{
	const char *const stages[] = { kernels[4], kernels[6] };
	char **shown = names_shorten(kernels + 4, 2, 60, true);

	assert_non_null(shown);
	assert_non_null(strstr(shown[0], "128x128x64"));
	assert_non_null(strstr(shown[1], "128x256x64"));
	names_free(shown, 2);
	shown = names_shorten(stages, 2, 60, true);
	assert_non_null(shown);
	assert_non_null(strstr(shown[0], "stage4"));
	assert_non_null(strstr(shown[1], "stage3"));
	names_free(shown, 2);
	shown = names_shorten(kernels, 2, 40, true);
	assert_non_null(shown);
	assert_non_null(strstr(shown[0], "<4, "));
	assert_non_null(strstr(shown[1], "<8, "));
	names_free(shown, 2);
}

TEST(short_names_are_whole)
{
	static const char *const ops[] = { "aten::copy_", "aten::mm" };
	char **shown = names_shorten(ops, 2, 40, false);

	assert_string_equal(shown[0], "aten::copy_");
	assert_string_equal(shown[1], "aten::mm");
	names_free(shown, 2);
	assert_non_null(shown = names_shorten(NULL, 0, 40, false));
	names_free(shown, 0);
}

/* Wide and combining characters take the columns that a terminal gives them. */
TEST(columns_are_real)
{
	static const char *const wide = "\xe6\xa0\xb8\xe5\xbf\x83"; /* two, of two columns each */
	static const char *const combined = "e\xcc\x81";	    /* an e with an accent */

	assert_int_equal(text_width(wide, strlen(wide)), 4);
	assert_int_equal(text_width(combined, strlen(combined)), 1);
	assert_int_equal(text_fit(wide, strlen(wide), 3), 3);
	assert_int_equal(text_fit(combined, strlen(combined), 1), 3);
}

int main(void)
{
	if (!setlocale(LC_CTYPE, "C.UTF-8")) {
		return 1;
	}
	return unit_run();
}
