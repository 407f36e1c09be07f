"""Parameters of LightGBM and XGBoost that pvtree lacks: those that would change the model are refused."""

from __future__ import annotations

# Whoever sets one of these expects another model, so training without it would be wrong without a word.
_UNSUPPORTED = (
    # LightGBM: trees, categories, gradients
    "auc_mu_weights bagging_by_query cat_l2 cat_smooth cegb_penalty_feature_coupled "
    "cegb_penalty_feature_lazy cegb_penalty_split cegb_tradeoff extra_tree feature_contri fc fp feature_contrib "
    "feature_penalty forcedbins_filename forcedsplits_filename fs forced_splits forced_splits_file "
    "forced_splits_filename interaction_constraints_file linear_lambda linear_trees max_bin_by_feature "
    "max_cat_threshold max_cat_to_onehot min_data_per_group "
    "monotone_penalty mc_penalty ms_penalty monotone_splits_penalty neg_bagging_fraction neg_bagging neg_sub_row "
    "neg_subsample pos_bagging_fraction pos_bagging pos_sub_row pos_subsample path_smooth "
    # LightGBM: objectives and metrics
    "lambdarank_position_bias_regularization reg_sqrt sigmoid "
    # LightGBM: other kinds of boosting
    "boost boosting boosting_type booster data_sample_strategy sampling_method num_parallel_tree "
    "drop_rate rate_drop max_drop skip_drop uniform_drop xgboost_dart_mode top_rate other_rate "
    # XGBoost
    "aft_loss_distribution aft_loss_distribution_scale "
    "feature_selector feature_weights lambdarank_bias_norm lambdarank_unbiased "
    "max_cached_hist_node max_cat_to_one_hot ndcg_exp_gain normalize_type one_drop "
    "refresh_leaf sample_type updater lambdarank_score_normalization "
    # boosting, if a forest is asked for them
    "base_score boost_from_average max_delta_step max_leaf_output max_tree_output min_data_in_bin "
    # forests
    "bootstrap criterion max_features max_samples oob_score "
    # trees of boosting, if a forest is asked for them
    "grow_policy colsample_bylevel subsample_for_bin bin_construct_sample_cnt extra_trees use_missing "
    "zero_as_missing linear_tree"
)

# LightGBM's main name of a parameter. If a parameter is given under several names, this one counts.
_LIGHTGBM_NAMES = (
    "alpha bagging_fraction bagging_freq boosting categorical_feature early_stopping_round feature_fraction "
    "feature_fraction_bynode interaction_constraints is_unbalance lambda_l1 lambda_l2 lambdarank_norm "
    "lambdarank_truncation_level learning_rate max_bin max_delta_step max_depth metric min_data_in_leaf "
    "min_gain_to_split min_sum_hessian_in_leaf monotone_constraints num_iterations num_leaves "
    "num_machines num_threads objective seed top_k tree_learner verbosity"
)

UNSUPPORTED = frozenset(_UNSUPPORTED.split())
LIGHTGBM_NAMES = frozenset(_LIGHTGBM_NAMES.split())
