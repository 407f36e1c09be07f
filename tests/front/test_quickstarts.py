"""The quickstart examples of LightGBM and XGBoost, run as they are and with other imports and class names.

Each text follows an example of those projects' documentation, on data that needs no network, and leaves a ``metric``
of rows that were not trained on. Regression is compared by R2, which has a scale of its own.
"""

import re
import warnings

import pytest
from threadpoolctl import threadpool_limits

LIGHTGBM = {
    "import lightgbm as lgb": "import pvtree as lgb",
    "LGBMClassifier": "GBDTClassifier",
    "LGBMRegressor": "GBDTRegressor",
    "LGBMRanker": "GBDTRanker",
}
XGBOOST = {
    "import xgboost as xgb": "import pvtree.as_xgboost as xgb",
    "from xgboost import": "from pvtree.as_xgboost import",
}

REGRESSION_DATA = """
from sklearn.datasets import make_friedman1
from sklearn.metrics import r2_score
from sklearn.model_selection import train_test_split
X, y = make_friedman1(4000, 28, noise=1.0, random_state=1)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
"""
BINARY_DATA = """
from sklearn.datasets import make_hastie_10_2
from sklearn.metrics import accuracy_score, roc_auc_score
from sklearn.model_selection import train_test_split
X, y = make_hastie_10_2(6000, random_state=0)
y = (y > 0).astype(int)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
"""
RANKING_DATA = """
import numpy as np
from sklearn.metrics import ndcg_score
rng = np.random.default_rng(0)
X = rng.normal(size=(8000, 10))
score = X[:, 0] + X[:, 1] * X[:, 2] + np.abs(X[:, 3]) + rng.normal(size=8000)
y = np.digitize(score, [0.5, 1.5, 2.5, 3.5])
qid = np.arange(8000) // 20
X_train, y_train, qid_train = X[:4000], y[:4000], qid[:4000]
X_test, y_test, qid_test = X[4000:], y[4000:], qid[4000:]
def mean_ndcg(scores):
    return ndcg_score(y_test.reshape(-1, 20), scores.reshape(-1, 20), k=10)
"""

# LightGBM, examples/python-guide/simple_example.py
LIGHTGBM_SIMPLE = (
    """
import lightgbm as lgb
"""
    + REGRESSION_DATA
    + """
lgb_train = lgb.Dataset(X_train, y_train)
lgb_eval = lgb.Dataset(X_test, y_test, reference=lgb_train)
params = {
    'boosting_type': 'gbdt',
    'objective': 'regression',
    'metric': {'l2', 'l1'},
    'num_leaves': 31,
    'learning_rate': 0.05,
    'feature_fraction': 0.9,
    'bagging_fraction': 0.8,
    'bagging_freq': 5,
    'verbose': 0
}
gbm = lgb.train(params,
                lgb_train,
                num_boost_round=100,
                valid_sets=lgb_eval,
                callbacks=[lgb.early_stopping(stopping_rounds=5)])
gbm.save_model(folder + '/model.txt')
y_pred = gbm.predict(X_test, num_iteration=gbm.best_iteration)
metric = r2_score(y_test, y_pred)
bst = lgb.Booster(model_file=folder + '/model.txt')
assert r2_score(y_test, bst.predict(X_test)) == metric
"""
)

# LightGBM, examples/python-guide/sklearn_example.py
LIGHTGBM_SKLEARN = (
    """
import numpy as np
import lightgbm as lgb
"""
    + REGRESSION_DATA
    + """
gbm = lgb.LGBMRegressor(num_leaves=31, learning_rate=0.05, n_estimators=60)
gbm.fit(X_train, y_train, eval_set=[(X_test, y_test)], eval_metric='l1', callbacks=[lgb.early_stopping(5)])
y_pred = gbm.predict(X_test, num_iteration=gbm.best_iteration_)
metric = r2_score(y_test, y_pred)
assert list(gbm.feature_importances_)

def rae(y_true, y_pred):
    return 'RAE', np.sum(np.abs(y_pred - y_true)) / np.sum(np.abs(np.mean(y_true) - y_true)), False

gbm.fit(X_train, y_train, eval_set=[(X_test, y_test)], eval_metric=rae, callbacks=[lgb.early_stopping(5)])
assert 0 < rae(y_test, gbm.predict(X_test))[1] < 1
"""
)

# LightGBM, examples/python-guide/advanced_example.py: weights, names, categories, continued training, schedules,
# an objective and a metric of one's own
LIGHTGBM_ADVANCED = (
    """
import numpy as np
import pickle
import lightgbm as lgb
"""
    + BINARY_DATA
    + """
X_train[:, 9] = np.clip(np.round(X_train[:, 9] * 2), 0, 5)
X_test[:, 9] = np.clip(np.round(X_test[:, 9] * 2), 0, 5)
W_train, W_test = np.ones(len(y_train)), np.ones(len(y_test))
lgb_train = lgb.Dataset(X_train, y_train, weight=W_train, free_raw_data=False)
lgb_eval = lgb.Dataset(X_test, y_test, reference=lgb_train, weight=W_test, free_raw_data=False)
params = {
    'boosting_type': 'gbdt',
    'objective': 'binary',
    'metric': 'binary_logloss',
    'num_leaves': 31,
    'learning_rate': 0.05,
    'feature_fraction': 0.9,
    'bagging_fraction': 0.8,
    'bagging_freq': 5,
    'verbose': 0
}
feature_name = [f'feature_{col}' for col in range(10)]
lgb_train = lgb.Dataset(X_train, y_train, weight=W_train, feature_name=feature_name, categorical_feature=[9],
                        free_raw_data=False)
lgb_eval = lgb.Dataset(X_test, y_test, reference=lgb_train, weight=W_test, free_raw_data=False)
gbm = lgb.train(params, lgb_train, num_boost_round=10, valid_sets=lgb_train)
assert gbm.feature_name()[6] == 'feature_6'
gbm.save_model(folder + '/model.txt')
assert len(gbm.feature_importance()) == 10
bst = pickle.loads(pickle.dumps(gbm))
assert (bst.predict(X_test) == gbm.predict(X_test)).all()

gbm = lgb.train(params, lgb_train, num_boost_round=40, init_model=folder + '/model.txt', valid_sets=lgb_eval)
gbm = lgb.train(params, lgb_train, num_boost_round=10, init_model=gbm, valid_sets=lgb_eval,
                callbacks=[lgb.reset_parameter(learning_rate=lambda iter: 0.05 * (0.99 ** iter))])
gbm = lgb.train(params, lgb_train, num_boost_round=10, init_model=gbm, valid_sets=lgb_eval,
                callbacks=[lgb.reset_parameter(bagging_fraction=[0.7] * 5 + [0.6] * 5)])
metric = roc_auc_score(y_test, gbm.predict(X_test))

def loglikelihood(preds, train_data):
    labels = train_data.get_label()
    preds = 1. / (1. + np.exp(-preds))
    return preds - labels, preds * (1. - preds)

def binary_error(preds, train_data):
    labels = train_data.get_label()
    preds = 1. / (1. + np.exp(-preds))
    return 'error', np.mean(labels != (preds > 0.5)), False

params['objective'] = loglikelihood
gbm = lgb.train(params, lgb_train, num_boost_round=10, feval=binary_error, valid_sets=lgb_eval)
assert roc_auc_score(y_test, gbm.predict(X_test)) > 0.8
"""
)

# LightGBM, the scikit-learn interface with classes
LIGHTGBM_MULTICLASS = """
import lightgbm as lgb
from sklearn.datasets import make_classification
from sklearn.model_selection import train_test_split
X, y = make_classification(8000, 12, n_informative=8, n_classes=3, class_sep=1.5, random_state=0)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=42)
clf = lgb.LGBMClassifier(objective='multiclass', n_estimators=60, verbosity=-1)
clf.fit(X_train, y_train, eval_set=[(X_test, y_test)], eval_metric='multi_logloss')
metric = clf.score(X_test, y_test)
assert clf.predict_proba(X_test).shape == (len(X_test), 3)
"""

# LightGBM, LGBMRanker with groups
LIGHTGBM_RANKER = (
    """
import lightgbm as lgb
"""
    + RANKING_DATA
    + """
gbm = lgb.LGBMRanker(n_estimators=50, verbose=-1)
gbm.fit(X_train, y_train, group=[20] * 200, eval_set=[(X_test, y_test)], eval_group=[[20] * 200], eval_at=[1, 3],
        callbacks=[lgb.reset_parameter(learning_rate=lambda x: max(0.01, 0.1 - 0.001 * x))])
metric = mean_ndcg(gbm.predict(X_test))
"""
)

# XGBoost, "Get Started with XGBoost"
XGBOOST_GET_STARTED = """
from xgboost import XGBClassifier
from sklearn.datasets import load_iris
from sklearn.model_selection import train_test_split
data = load_iris()
X_train, X_test, y_train, y_test = train_test_split(data['data'], data['target'], test_size=.2, random_state=0)
bst = XGBClassifier(n_estimators=2, max_depth=2, learning_rate=1, objective='binary:logistic')
bst.fit(X_train, y_train)
preds = bst.predict(X_test)
metric = (preds == y_test).mean()
"""

# XGBoost, demo/guide-python/sklearn_examples.py: digits, early stopping, grid search
XGBOOST_SKLEARN = """
import numpy as np
import xgboost as xgb
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, train_test_split
digits = load_digits(n_class=2)
xgb_model = xgb.XGBClassifier(n_jobs=1).fit(digits['data'][::2], digits['target'][::2])
assert xgb_model.score(digits['data'][1::2], digits['target'][1::2]) > 0.98
digits = load_digits()
X, y = digits['data'], digits['target']
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
clf = xgb.XGBClassifier(n_jobs=1, n_estimators=2, max_depth=2, learning_rate=1, early_stopping_rounds=2,
                        eval_metric='merror', tree_method='hist')
clf.fit(X_train, y_train, eval_set=[(X_test, y_test)], verbose=False)
assert len(clf.evals_result()['validation_0']['merror']) == 2
metric = clf.score(X_test, y_test)
clf.save_model(folder + '/clf.json')
loaded = xgb.XGBClassifier()
loaded.load_model(folder + '/clf.json')
assert (loaded.predict(X_test) == clf.predict(X_test)).all()
"""

# XGBoost, train with DMatrix: binary classification with a list to watch, and its native regression
XGBOOST_TRAIN = (
    """
import xgboost as xgb
"""
    + BINARY_DATA
    + """
dtrain = xgb.DMatrix(X_train, label=y_train)
dtest = xgb.DMatrix(X_test, label=y_test)
param = {'max_depth': 4, 'eta': 0.5, 'objective': 'binary:logistic', 'eval_metric': 'auc', 'nthread': 2}
evals_result = {}
bst = xgb.train(param, dtrain, 40, evals=[(dtrain, 'train'), (dtest, 'eval')], evals_result=evals_result,
                verbose_eval=False)
metric = roc_auc_score(y_test, bst.predict(dtest))
assert abs(evals_result['eval']['auc'][-1] - metric) < 1e-6
bst.save_model(folder + '/0001.json')
"""
)
XGBOOST_REGRESSION = (
    """
import xgboost as xgb
"""
    + REGRESSION_DATA
    + """
model = xgb.XGBRegressor(n_estimators=100, learning_rate=0.1, max_depth=4, subsample=0.9, objective='reg:squarederror')
model.fit(X_train, y_train, eval_set=[(X_test, y_test)], verbose=False)
metric = r2_score(y_test, model.predict(X_test))
assert list(model.evals_result()['validation_0']) == ['rmse']
"""
)

# XGBoost, "Learning to Rank"
XGBOOST_RANKER = (
    """
import xgboost as xgb
"""
    + RANKING_DATA
    + """
ranker = xgb.XGBRanker(tree_method="hist", lambdarank_num_pair_per_sample=8, objective="rank:ndcg",
                       lambdarank_pair_method="topk", n_estimators=60, learning_rate=0.1, max_depth=4)
ranker.fit(X_train, y_train, qid=qid_train)
metric = mean_ndcg(ranker.predict(X_test))
"""
)

EXAMPLES = {
    "lightgbm regression": (LIGHTGBM_SIMPLE, LIGHTGBM),
    "lightgbm regressor": (LIGHTGBM_SKLEARN, LIGHTGBM),
    "lightgbm binary": (LIGHTGBM_ADVANCED, LIGHTGBM),
    "lightgbm multiclass": (LIGHTGBM_MULTICLASS, LIGHTGBM),
    "lightgbm ranking": (LIGHTGBM_RANKER, LIGHTGBM),
    "xgboost get started": (XGBOOST_GET_STARTED, XGBOOST),
    "xgboost multiclass": (XGBOOST_SKLEARN, XGBOOST),
    "xgboost binary": (XGBOOST_TRAIN, XGBOOST),
    "xgboost regression": (XGBOOST_REGRESSION, XGBOOST),
    "xgboost ranking": (XGBOOST_RANKER, XGBOOST),
}


def metric_of(text, folder):
    names = {"folder": str(folder)}
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        exec(compile(text, "<example>", "exec"), names)
    return names["metric"]


@pytest.mark.parametrize("name", EXAMPLES)
def test_same_metric_with_other_imports_and_class_names(name, tmp_path, monkeypatch):
    # One thread for each library: the peers' threads wait for each other by spinning, long where tests share cores.
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "1")
    text, renamed = EXAMPLES[name]
    pytest.importorskip(name.split()[0])
    ours = text
    for theirs, our in renamed.items():
        ours = ours.replace(theirs, our)
    assert not re.search(rf"(import|from) {name.split()[0]}", ours)
    theirs, own = metric_of(text, tmp_path), metric_of(ours, tmp_path)
    print(f"{name}: {theirs:.4f} {own:.4f} {own - theirs:+.4f}")
    assert abs(theirs - own) <= 0.005
