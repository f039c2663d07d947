"""Calls of SciPy that its documentation lists as supporting the array API standard."""

import numpy as np
from scipy import (
    constants,
    differentiate,
    fft,
    integrate,
    interpolate,
    linalg,
    ndimage,
    optimize,
    signal,
    special,
    stats,
)
from scipy.cluster import hierarchy, vq
from scipy.optimize import elementwise
from scipy.spatial.transform import Rotation

_RNG = np.random.default_rng(3)
SAMPLE = _RNG.normal(size=(12, 4))
OTHER_SAMPLE = _RNG.normal(size=(12, 4)) + 0.3
VECTOR = _RNG.normal(size=30)
CORRELATED_VECTOR = VECTOR + _RNG.normal(size=30)
PROBABILITIES = _RNG.uniform(0.1, 0.9, (3, 8))
"""Probabilities, and other numbers between 0 and 1."""
POSITIVES = _RNG.uniform(0.5, 4.0, (3, 8))
"""Positive numbers."""
COUNTS = _RNG.integers(1, 9, 24)
IMAGE = _RNG.normal(size=(9, 11))
BINARY_IMAGE = IMAGE > 0.2
GRID = np.linspace(0.0, 2.0, 9)
CURVE = np.sin(GRID) + GRID
SAMPLE_TIMES = np.linspace(0.1, 1.9, 5)
PEAKS = np.array([0.1, 0.7, 1.3])
SERIES = np.sin(np.linspace(0, 20, 64)) + 0.1 * np.cos(np.arange(64) ** 2)
FILTER = np.array([0.25, 0.5, 0.25])
FILTER_DENOMINATOR = np.array([1.0, -0.4, 0.1])
SECOND_ORDER_SECTIONS = np.array([[0.2, 0.4, 0.2, 1.0, -0.5, 0.2], [0.5, 0.1, 0.0, 1.0, 0.3, 0.0]])
ROTATION_VECTORS = np.array([[0.1, -0.2, 0.3], [1.0, 0.5, -0.4], [0.0, 0.3, 2.0]])
DISTANCES = np.abs(SAMPLE[:4] - OTHER_SAMPLE[:4]) + 0.1
POINTS = np.vstack([SAMPLE, OTHER_SAMPLE + 5])
LINKAGE = hierarchy.linkage(POINTS, "average")
QUATERNIONS = Rotation.from_rotvec(ROTATION_VECTORS).as_quat()
ROOTS = np.array([0.3, -0.5])


def result_fields(result, *names):
    """Return fields of a result as a tuple."""
    return tuple(getattr(result, name) for name in names)


def statistic_and_p_value(result):
    """Return the statistic and the p-value of a hypothesis test."""
    return result.statistic, result.pvalue


CALLS = {
    # --- special functions ---
    "special.erf": lambda t: special.erf(t(VECTOR)),
    "special.erfc": lambda t: special.erfc(t(VECTOR)),
    "special.gammaln": lambda t: special.gammaln(t(POSITIVES)),
    "special.gammainc": lambda t: special.gammainc(t(POSITIVES), t(PROBABILITIES)),
    "special.gammaincc": lambda t: special.gammaincc(t(POSITIVES), t(PROBABILITIES)),
    "special.ndtr": lambda t: special.ndtr(t(VECTOR)),
    "special.ndtri": lambda t: special.ndtri(t(PROBABILITIES)),
    "special.log_ndtr": lambda t: special.log_ndtr(t(VECTOR)),
    "special.expit": lambda t: special.expit(t(VECTOR)),
    "special.logit": lambda t: special.logit(t(PROBABILITIES)),
    "special.entr": lambda t: special.entr(t(PROBABILITIES)),
    "special.rel_entr": lambda t: special.rel_entr(t(PROBABILITIES), t(POSITIVES)),
    "special.xlogy": lambda t: special.xlogy(t(PROBABILITIES), t(POSITIVES)),
    "special.betaln": lambda t: special.betaln(t(PROBABILITIES), t(POSITIVES)),
    "special.betainc": lambda t: special.betainc(t(POSITIVES), t(POSITIVES), t(PROBABILITIES)),
    "special.i0": lambda t: special.i0(t(POSITIVES)),
    "special.i0e": lambda t: special.i0e(t(POSITIVES)),
    "special.i1": lambda t: special.i1(t(POSITIVES)),
    "special.i1e": lambda t: special.i1e(t(POSITIVES)),
    "special.j0": lambda t: special.j0(t(POSITIVES)),
    "special.chdtrc": lambda t: special.chdtrc(t(POSITIVES), t(PROBABILITIES)),
    "special.stdtrit": lambda t: special.stdtrit(t(POSITIVES), t(PROBABILITIES)),
    "special.gamma": lambda t: special.gamma(t(POSITIVES)),
    "special.psi": lambda t: special.psi(t(POSITIVES)),
    "special.exp2": lambda t: special.exp2(t(VECTOR)),
    "special.sinc": lambda t: special.sinc(t(VECTOR)),
    "special.kl_div": lambda t: special.kl_div(t(PROBABILITIES), t(POSITIVES)),
    "special.multigammaln": lambda t: special.multigammaln(t(POSITIVES + 2), 2),
    "special.logsumexp": lambda t: special.logsumexp(t(SAMPLE), axis=1),
    "special.softmax": lambda t: special.softmax(t(SAMPLE), axis=1),
    "special.log_softmax": lambda t: special.log_softmax(t(SAMPLE), axis=0),
    # --- statistics ---
    "stats.zscore": lambda t: stats.zscore(t(SAMPLE)),
    "stats.zmap": lambda t: stats.zmap(t(SAMPLE), t(OTHER_SAMPLE)),
    "stats.gzscore": lambda t: stats.gzscore(t(POSITIVES)),
    "stats.moment": lambda t: stats.moment(t(SAMPLE), order=3),
    "stats.skew": lambda t: stats.skew(t(SAMPLE), axis=1),
    "stats.kurtosis": lambda t: stats.kurtosis(t(SAMPLE), bias=False),
    "stats.describe": lambda t: result_fields(
        stats.describe(t(SAMPLE)), "minmax", "mean", "variance", "skewness", "kurtosis"
    ),
    "stats.gmean": lambda t: stats.gmean(t(POSITIVES), axis=1),
    "stats.hmean": lambda t: stats.hmean(t(POSITIVES), weights=t(PROBABILITIES)),
    "stats.pmean": lambda t: stats.pmean(t(POSITIVES), 2.5),
    "stats.variation": lambda t: stats.variation(t(POSITIVES), ddof=1),
    "stats.sem": lambda t: stats.sem(t(SAMPLE)),
    "stats.tmean": lambda t: stats.tmean(t(VECTOR), (-1.0, 1.0)),
    "stats.tvar": lambda t: stats.tvar(t(VECTOR), (-1.0, 1.0)),
    "stats.tstd": lambda t: stats.tstd(t(VECTOR), (-1.0, 1.0)),
    "stats.tmin": lambda t: stats.tmin(t(VECTOR), -0.5),
    "stats.tmax": lambda t: stats.tmax(t(VECTOR), 0.5),
    "stats.kstat": lambda t: stats.kstat(t(VECTOR), 3),
    "stats.kstatvar": lambda t: stats.kstatvar(t(VECTOR), 2),
    "stats.circmean": lambda t: stats.circmean(t(POSITIVES), axis=1),
    "stats.circvar": lambda t: stats.circvar(t(PROBABILITIES)),
    "stats.circstd": lambda t: stats.circstd(t(PROBABILITIES), axis=0),
    "stats.directional_stats": lambda t: result_fields(
        stats.directional_stats(t(SAMPLE)), "mean_direction", "mean_resultant_length"
    ),
    "stats.entropy": lambda t: stats.entropy(t(PROBABILITIES), t(POSITIVES), axis=1),
    "stats.differential_entropy": lambda t: stats.differential_entropy(t(VECTOR)),
    "stats.quantile": lambda t: stats.quantile(t(VECTOR), t(np.array([0.2, 0.5]))),
    "stats.iqr": lambda t: stats.iqr(t(SAMPLE), axis=0),
    "stats.median_abs_deviation": lambda t: stats.median_abs_deviation(t(SAMPLE)),
    "stats.rankdata": lambda t: stats.rankdata(t(SAMPLE), axis=0),
    "stats.trim_mean": lambda t: stats.trim_mean(t(SAMPLE), 0.2),
    "stats.lmoment": lambda t: stats.lmoment(t(VECTOR)),
    "stats.boxcox_llf": lambda t: stats.boxcox_llf(0.7, t(POSITIVES[0])),
    "stats.skewtest": lambda t: statistic_and_p_value(stats.skewtest(t(VECTOR))),
    "stats.kurtosistest": lambda t: statistic_and_p_value(stats.kurtosistest(t(VECTOR))),
    "stats.normaltest": lambda t: statistic_and_p_value(stats.normaltest(t(VECTOR))),
    "stats.jarque_bera": lambda t: statistic_and_p_value(stats.jarque_bera(t(SAMPLE), axis=0)),
    "stats.bartlett": lambda t: statistic_and_p_value(
        stats.bartlett(t(VECTOR), t(CORRELATED_VECTOR))
    ),
    "stats.levene": lambda t: statistic_and_p_value(stats.levene(t(VECTOR), t(CORRELATED_VECTOR))),
    "stats.ttest_1samp": lambda t: statistic_and_p_value(stats.ttest_1samp(t(SAMPLE), 0.1)),
    "stats.ttest_ind": lambda t: statistic_and_p_value(
        stats.ttest_ind(t(SAMPLE), t(OTHER_SAMPLE), equal_var=False)
    ),
    "stats.ttest_rel": lambda t: statistic_and_p_value(stats.ttest_rel(t(SAMPLE), t(OTHER_SAMPLE))),
    "stats.f_oneway": lambda t: statistic_and_p_value(stats.f_oneway(t(SAMPLE), t(OTHER_SAMPLE))),
    "stats.kruskal": lambda t: statistic_and_p_value(
        stats.kruskal(t(VECTOR), t(CORRELATED_VECTOR))
    ),
    "stats.mannwhitneyu": lambda t: statistic_and_p_value(
        stats.mannwhitneyu(t(VECTOR), t(CORRELATED_VECTOR), method="asymptotic")
    ),
    "stats.wilcoxon": lambda t: statistic_and_p_value(
        stats.wilcoxon(t(VECTOR), t(CORRELATED_VECTOR), method="asymptotic")
    ),
    "stats.pearsonr": lambda t: statistic_and_p_value(
        stats.pearsonr(t(VECTOR), t(CORRELATED_VECTOR))
    ),
    "stats.chisquare": lambda t: statistic_and_p_value(stats.chisquare(t(COUNTS.astype(float)))),
    "stats.power_divergence": lambda t: statistic_and_p_value(
        stats.power_divergence(t(COUNTS.astype(float)), lambda_="log-likelihood")
    ),
    "stats.combine_pvalues": lambda t: statistic_and_p_value(
        stats.combine_pvalues(t(PROBABILITIES[0]))
    ),
    "stats.false_discovery_control": lambda t: stats.false_discovery_control(t(PROBABILITIES[0])),
    "stats.alexandergovern": lambda t: statistic_and_p_value(
        stats.alexandergovern(t(VECTOR), t(CORRELATED_VECTOR))
    ),
    "stats.brunnermunzel": lambda t: statistic_and_p_value(
        stats.brunnermunzel(t(VECTOR), t(CORRELATED_VECTOR))
    ),
    "stats.friedmanchisquare": lambda t: statistic_and_p_value(
        stats.friedmanchisquare(t(VECTOR), t(CORRELATED_VECTOR), t(VECTOR * CORRELATED_VECTOR))
    ),
    "stats.spearmanrho": lambda t: statistic_and_p_value(
        stats.spearmanrho(t(VECTOR), t(CORRELATED_VECTOR))
    ),
    "stats.ttest_ind_from_stats": lambda t: statistic_and_p_value(
        stats.ttest_ind_from_stats(
            t(PROBABILITIES[0]), t(POSITIVES[0]), 9, t(PROBABILITIES[1]), t(POSITIVES[1]), 7
        )
    ),
    "stats.gstd": lambda t: stats.gstd(t(POSITIVES)),
    "stats.tsem": lambda t: stats.tsem(t(VECTOR), (-1.0, 1.0)),
    "stats.mode": lambda t: stats.mode(t(COUNTS)),
    "stats.sigmaclip": lambda t: stats.sigmaclip(t(VECTOR), 2.0, 2.0),
    "stats.yeojohnson_llf": lambda t: stats.yeojohnson_llf(0.7, t(VECTOR)),
    "stats.chatterjeexi": lambda t: statistic_and_p_value(
        stats.chatterjeexi(t(VECTOR), t(CORRELATED_VECTOR))
    ),
    "stats.cramervonmises": lambda t: statistic_and_p_value(
        stats.cramervonmises(t(PROBABILITIES[0]), lambda x: x)
    ),
    "stats.ks_1samp": lambda t: statistic_and_p_value(
        stats.ks_1samp(t(PROBABILITIES[0]), lambda x: x, method="asymp")
    ),
    "stats.fligner": lambda t: statistic_and_p_value(
        stats.fligner(t(VECTOR), t(CORRELATED_VECTOR))
    ),
    "stats.monte_carlo_test": lambda t: (
        stats.monte_carlo_test(
            t(VECTOR),
            lambda size: t(np.random.default_rng(0).normal(size=size)),
            lambda x, axis: x.mean(axis=axis),
            n_resamples=50,
            vectorized=True,
        ).statistic
    ),
    "stats.bootstrap": lambda t: (
        stats.bootstrap(
            (t(VECTOR),),
            lambda x, axis: x.mean(axis=axis),
            n_resamples=50,
            rng=1,
            method="percentile",
        ).standard_error
    ),
    # --- signals and transforms ---
    "fft.fft": lambda t: fft.fft(t(SERIES)),
    "fft.ifft": lambda t: fft.ifft(t(SERIES)),
    "fft.rfft": lambda t: fft.rfft(t(SERIES)),
    "fft.irfft": lambda t: fft.irfft(t(SERIES)),
    "fft.fft2": lambda t: fft.fft2(t(IMAGE)),
    "fft.ifft2": lambda t: fft.ifft2(t(IMAGE)),
    "fft.fftn": lambda t: fft.fftn(t(IMAGE)),
    "fft.ihfft": lambda t: fft.ihfft(t(VECTOR)),
    "fft.rfftn": lambda t: fft.rfftn(t(IMAGE)),
    "fft.hfft": lambda t: fft.hfft(t(VECTOR)),
    "fft.fftshift": lambda t: fft.fftshift(t(VECTOR)),
    "fft.dct": lambda t: fft.dct(t(SERIES)),
    "fft.fht": lambda t: fft.fht(t(POSITIVES[0]), 0.1, 0.5),
    "signal.convolve": lambda t: signal.convolve(t(SERIES), t(FILTER), method="direct"),
    "signal.fftconvolve": lambda t: signal.fftconvolve(t(SERIES), t(FILTER)),
    "signal.oaconvolve": lambda t: signal.oaconvolve(t(SERIES), t(FILTER)),
    "signal.correlate": lambda t: signal.correlate(t(SERIES), t(FILTER), method="fft"),
    "signal.convolve2d": lambda t: signal.convolve2d(t(IMAGE), t(IMAGE[:3, :3])),
    "signal.detrend": lambda t: signal.detrend(t(SERIES)),
    "signal.hilbert": lambda t: signal.hilbert(t(SERIES)),
    "signal.resample": lambda t: signal.resample(t(SERIES), 40),
    "signal.resample_poly": lambda t: signal.resample_poly(t(SERIES), 3, 2),
    "signal.upfirdn": lambda t: signal.upfirdn(t(FILTER), t(SERIES), 2, 3),
    "signal.lfilter": lambda t: signal.lfilter(t(FILTER), t(FILTER_DENOMINATOR), t(SERIES)),
    "signal.filtfilt": lambda t: signal.filtfilt(t(FILTER), t(FILTER_DENOMINATOR), t(SERIES)),
    "signal.sosfilt": lambda t: signal.sosfilt(t(SECOND_ORDER_SECTIONS), t(SERIES)),
    "signal.freqz": lambda t: signal.freqz(t(FILTER), t(FILTER_DENOMINATOR), 16),
    "signal.medfilt": lambda t: signal.medfilt(t(SERIES), 5),
    "signal.savgol_filter": lambda t: signal.savgol_filter(t(SERIES), 7, 2),
    "signal.wiener": lambda t: signal.wiener(t(IMAGE)),
    "signal.envelope": lambda t: signal.envelope(t(SERIES)),
    "signal.zpk2tf": lambda t: signal.zpk2tf(t(ROOTS), t(ROOTS / 2), 1.5),
    "signal.freqz_zpk": lambda t: signal.freqz_zpk(t(ROOTS), t(ROOTS / 2), 1.5, 16),
    "signal.group_delay": lambda t: signal.group_delay((t(FILTER), t(FILTER_DENOMINATOR)), 16),
    "signal.vectorstrength": lambda t: signal.vectorstrength(t(POSITIVES[0]), 1.5),
    "signal.lfilter_zi": lambda t: signal.lfilter_zi(t(FILTER), t(FILTER_DENOMINATOR)),
    "signal.firwin": lambda t: signal.firwin(9, t(np.array([0.3]))),
    # --- pictures ---
    "ndimage.gaussian_filter": lambda t: ndimage.gaussian_filter(t(IMAGE), 1.2),
    "ndimage.sobel": lambda t: ndimage.sobel(t(IMAGE)),
    "ndimage.laplace": lambda t: ndimage.laplace(t(IMAGE)),
    "ndimage.median_filter": lambda t: ndimage.median_filter(t(IMAGE), 3),
    "ndimage.rotate": lambda t: ndimage.rotate(t(IMAGE), 30.0),
    "ndimage.zoom": lambda t: ndimage.zoom(t(IMAGE), 1.5),
    "ndimage.label": lambda t: ndimage.label(t(BINARY_IMAGE)),
    "ndimage.binary_dilation": lambda t: ndimage.binary_dilation(t(BINARY_IMAGE)),
    "ndimage.center_of_mass": lambda t: ndimage.center_of_mass(t(np.abs(IMAGE))),
    # --- groups ---
    "cluster.vq.whiten": lambda t: vq.whiten(t(SAMPLE)),
    "cluster.vq.vq": lambda t: vq.vq(t(SAMPLE), t(OTHER_SAMPLE[:3])),
    "cluster.vq.kmeans2": lambda t: vq.kmeans2(t(POINTS), t(POINTS[[0, 20]]), minit="matrix"),
    "cluster.hierarchy.linkage": lambda t: hierarchy.linkage(t(POINTS), "average"),
    "cluster.hierarchy.fcluster": lambda t: hierarchy.fcluster(t(LINKAGE), 3, "maxclust"),
    # --- calculus ---
    "integrate.trapezoid": lambda t: integrate.trapezoid(t(CURVE), t(GRID)),
    "integrate.cumulative_trapezoid": lambda t: integrate.cumulative_trapezoid(
        t(CURVE), t(GRID), initial=0
    ),
    "integrate.cumulative_simpson": lambda t: integrate.cumulative_simpson(t(CURVE), x=t(GRID)),
    "integrate.romb": lambda t: integrate.romb(t(CURVE), 0.25),
    "integrate.tanhsinh": lambda t: (
        integrate.tanhsinh(lambda x: x * x, t(PROBABILITIES[0]), t(POSITIVES[0])).integral
    ),
    "integrate.cubature": lambda t: (
        integrate.cubature(
            lambda x: (x**2).sum(axis=-1), t(np.zeros(2)), t(np.ones(2)), rtol=1e-3
        ).estimate
    ),
    "differentiate.derivative": lambda t: (
        differentiate.derivative(lambda x: x**3, t(PROBABILITIES[0]), tolerances={"rtol": 1e-3}).df
    ),
    "differentiate.hessian": lambda t: (
        differentiate.hessian(
            lambda x: (x**2).sum(axis=0), t(PROBABILITIES[0, :2]), tolerances={"rtol": 1e-2}
        ).ddf
    ),
    "differentiate.jacobian": lambda t: (
        differentiate.jacobian(
            lambda x: x**2, t(PROBABILITIES[0, :3]), tolerances={"rtol": 1e-3}
        ).df
    ),
    "optimize.elementwise.find_root": lambda t: (
        elementwise.find_root(lambda x: x * x - 1, (t(PROBABILITIES[0]), t(POSITIVES[0] + 1))).x
    ),
    "optimize.elementwise.find_minimum": lambda t: (
        elementwise.find_minimum(
            lambda x: (x - 1) ** 2 + 3,
            (t(PROBABILITIES[0] - 1), t(PROBABILITIES[0] * 0 + 0.8), t(POSITIVES[0] + 1)),
        ).f_x
    ),
    "optimize.elementwise.bracket_root": lambda t: (
        elementwise.bracket_root(lambda x: x - 5, t(PROBABILITIES[0]), t(POSITIVES[0] + 1)).bracket
    ),
    "optimize.rosen": lambda t: optimize.rosen(t(SAMPLE)),
    "optimize.rosen_der": lambda t: optimize.rosen_der(t(VECTOR)),
    "optimize.rosen_hess": lambda t: optimize.rosen_hess(t(VECTOR[:5])),
    # --- interpolation ---
    "interpolate.CubicSpline": lambda t: interpolate.CubicSpline(t(GRID), t(CURVE))(
        t(SAMPLE_TIMES)
    ),
    "interpolate.PchipInterpolator": lambda t: interpolate.PchipInterpolator(t(GRID), t(CURVE))(
        t(SAMPLE_TIMES)
    ),
    "interpolate.Akima1DInterpolator": lambda t: interpolate.Akima1DInterpolator(t(GRID), t(CURVE))(
        t(SAMPLE_TIMES)
    ),
    "interpolate.make_interp_spline": lambda t: interpolate.make_interp_spline(t(GRID), t(CURVE))(
        t(SAMPLE_TIMES)
    ),
    "interpolate.PPoly": lambda t: interpolate.PPoly(
        t(PROBABILITIES[:, :2]), t(PEAKS)
    ).derivative()(t(SAMPLE_TIMES)),
    "interpolate.RBFInterpolator": lambda t: interpolate.RBFInterpolator(
        t(SAMPLE[:, :2]), t(SAMPLE[:, 2])
    )(t(OTHER_SAMPLE[:, :2])),
    "interpolate.RegularGridInterpolator": lambda t: interpolate.RegularGridInterpolator(
        (t(GRID), t(GRID)), t(CURVE[:, None] * CURVE)
    )(t(np.stack([SAMPLE_TIMES, SAMPLE_TIMES[::-1]], axis=1))),
    # --- geometry, matrices and constants ---
    "spatial.transform.Rotation.from_rotvec": lambda t: Rotation.from_rotvec(
        t(ROTATION_VECTORS)
    ).as_quat(),
    "spatial.transform.Rotation.from_euler": lambda t: Rotation.from_euler(
        "xyz", t(ROTATION_VECTORS)
    ).as_matrix(),
    "spatial.transform.Rotation.from_quat": lambda t: Rotation.from_quat(
        t(QUATERNIONS)
    ).as_rotvec(),
    "spatial.transform.Rotation.as_euler": lambda t: Rotation.from_quat(t(QUATERNIONS)).as_euler(
        "zyx"
    ),
    "spatial.transform.Rotation.magnitude": lambda t: Rotation.from_rotvec(
        t(ROTATION_VECTORS)
    ).magnitude(),
    "spatial.transform.Rotation.mean": lambda t: (
        Rotation.from_rotvec(t(ROTATION_VECTORS)).mean().as_matrix()
    ),
    "spatial.transform.Rotation.apply": lambda t: (
        Rotation.from_mrp(t(ROTATION_VECTORS)).inv().apply(t(SAMPLE[:3, :3]))
    ),
    "linalg.block_diag": lambda t: linalg.block_diag(t(PROBABILITIES), t(POSITIVES)),
    "linalg.orthogonal_procrustes": lambda t: linalg.orthogonal_procrustes(
        t(SAMPLE), t(OTHER_SAMPLE)
    ),
    "linalg.fiedler": lambda t: linalg.fiedler(t(VECTOR[:5])),
    "constants.convert_temperature": lambda t: constants.convert_temperature(
        t(POSITIVES), "Celsius", "Kelvin"
    ),
    "constants.lambda2nu": lambda t: constants.lambda2nu(t(POSITIVES)),
}
"""The calls by name. Each is given a function that makes an array of a library from one of NumPy."""
