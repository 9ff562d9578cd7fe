"""What Spark's functions are to a view: aggregates that it maintains, and what is refused."""

from __future__ import annotations

from penstock.plan import Function

__all__ = [
    "AGGREGATES",
    "GENERATORS",
    "NOT_REPEATABLE",
    "OTHER_AGGREGATES",
    "PINNED",
    "TIME_WINDOWS",
    "WINDOW_ONLY",
]


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


AGGREGATES: dict[str, Function] = {
    "count": Function.COUNT,
    "count_if": Function.COUNT_COLUMN,
    "sum": Function.SUM,
    "avg": Function.AVG,
    "mean": Function.AVG,
    "min": Function.MIN,
    "max": Function.MAX,
    "bool_and": Function.MIN,
    "every": Function.MIN,
    "bool_or": Function.MAX,
    "any": Function.MAX,
    "some": Function.MAX,
}
"""Maintained: what each becomes. false < true, so BOOL_AND is the least value and BOOL_OR the greatest."""

OTHER_AGGREGATES = _names(
    """
    any_value approx_count_distinct approx_percentile approx_top_k approx_top_k_accumulate
    approx_top_k_combine array_agg bit_and bit_or bit_xor bitmap_and_agg bitmap_construct_agg bitmap_or_agg
    collect_list collect_set corr count_min_sketch covar_pop covar_samp first first_value grouping grouping_id
    histogram_numeric hll_sketch_agg hll_union_agg kurtosis last last_value listagg max_by median min_by mode
    percentile percentile_approx percentile_cont percentile_disc regr_avgx regr_avgy regr_count regr_intercept
    regr_r2 regr_slope regr_sxx regr_sxy regr_syy schema_of_variant_agg skewness std stddev stddev_pop
    stddev_samp string_agg theta_intersection_agg theta_sketch_agg theta_union_agg try_avg try_sum var_pop
    var_samp variance kll_sketch_agg_bigint kll_sketch_agg_double kll_sketch_agg_float kll_merge_agg_bigint
    kll_merge_agg_double kll_merge_agg_float tuple_sketch_agg_double tuple_sketch_agg_integer
    tuple_union_agg_double tuple_union_agg_integer tuple_intersection_agg_double
    tuple_intersection_agg_integer measure vector_avg vector_sum
    bloom_filter_agg collect_top_k collect_union
    """
)

NOT_REPEATABLE = _names(
    """
    rand randn random randstr uniform uuid shuffle monotonically_increasing_id spark_partition_id
    input_file_name input_file_block_start input_file_block_length java_method reflect try_reflect
    """
)
"""Another answer each time they are asked: what a view said before could never be taken back."""

PINNED = _names(
    """
    current_timestamp now current_date curdate current_time localtimestamp unix_timestamp current_timezone
    current_user user session_user current_catalog current_database current_schema current_path localtime
    """
)
"""They tell of the moment or the session, not of the rows. (`unix_timestamp` only without arguments.)"""

GENERATORS = _names(
    """
    explode explode_outer posexplode posexplode_outer inline inline_outer stack json_tuple variant_explode
    variant_explode_outer sql_keywords collations python_worker_logs
    """
)

TIME_WINDOWS = frozenset(("window", "window_time", "session_window"))

WINDOW_ONLY = _names(
    "row_number rank dense_rank percent_rank cume_dist ntile lag lead nth_value counter_diff"
)
