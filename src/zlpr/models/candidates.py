"""The first stage of many labels: which labels may be a sample's own, by their centroids."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Integers = NDArray[np.integer[Any]]

# Products that are added up at a time: a block of samples takes some 12 bytes for each. It begins
# with a zero for every label, so that with very many labels it has so many products of each; far
# more would be slower, as the system then lays out its memory anew for every block.
BLOCK_PRODUCTS, BLOCK_PRODUCTS_OF_A_LABEL = 2**20, 2
# Labels whose sums are held at a time: a processor's cache has them, a million's it has not.
PIECE_LABELS = 2**17
# Places of a table over the features of a few labels, and features that are looked up at a time.
# A table is larger where features are very many, so that it holds so many labels all the same: what
# a group takes for itself would else grow with labels times features.
TABLE, GROUP_ENTRIES = 2**21, 2**18
TABLE_LABELS, LARGEST_TABLE = 64, 2**25
# Candidates are named by the features of a sample that could add most, by the labels of a feature
# whose centroids have most of it, and by so many products of a sample as a whole: what it takes
# then grows with the samples alone. With all products recall is the same on German records (42.9 %)
# and Finnish links (84.7 %), and lower on 100,000 synthetic labels (83.8 instead of 84.6 %), where
# it takes nearly three times as long.
SAMPLE_FEATURES, FEATURE_LABELS, SAMPLE_PRODUCTS = 256, 4096, 2**14


def label_sums(features: Any, labels: Any, largest: int) -> "sparse.csr_array[Any]":
    """The sum of the features of each label's samples, of which the largest entries are kept.

    Args:
        features: shape (samples, features), CSR.
        labels: shape (samples, labels), CSR.
        largest: entries to keep of each label.

    Returns:
        Shape (labels, features), CSR; a row of zeros for a label without samples.
    """
    by_label = sparse.csr_array(labels.T.astype(np.float32))
    blocks = [
        keep_largest(sparse.csr_array(by_label[first:last] @ features), largest)
        for first, last in blocks_of(by_label, np.diff(features.indptr))
    ]
    return sparse.csr_array(sparse.vstack(blocks, format="csr"))


def keep_largest(
    matrix: "sparse.csr_array[Any]", largest: int, *, sizes: NDArray[Any] | None = None
) -> "sparse.csr_array[Any]":
    """The entries of each row with the largest absolute values, so many at most, by column.

    Args:
        matrix: CSR.
        largest: entries to keep of each row.
        sizes: of each stored entry, where not its absolute value says how large it is.

    Examples:
        >>> keep_largest(sparse.csr_array(np.array([[3.0, -4.0, 1.0]])), 2).toarray()
        array([[ 3., -4.,  0.]])
    """
    pointer, chosen = matrix.indptr, []
    if np.diff(pointer).max(initial=0) <= largest:
        return matrix if matrix.has_sorted_indices else matrix.sorted_indices()
    sizes = np.abs(matrix.data) if sizes is None else sizes
    for first, last in zip(pointer[:-1].tolist(), pointer[1:].tolist(), strict=True):
        if last - first <= largest:
            chosen.append(np.arange(first, last))
            continue
        chosen.append(first + np.sort(np.argpartition(-sizes[first:last], largest - 1)[:largest]))
    places = np.concatenate([np.empty(0, dtype=np.int64), *chosen])
    counts = np.minimum(np.diff(pointer), largest)
    pruned = (matrix.data[places], matrix.indices[places], np.concatenate([[0], np.cumsum(counts)]))
    kept = sparse.csr_array(pruned, shape=matrix.shape)
    kept.sort_indices()
    return kept


def unit_rows(matrix: "sparse.csr_array[Any]") -> "sparse.csr_array[Any]":
    """The rows scaled to length one; a row of zeros stays one."""
    lengths = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1), dtype=np.float64))
    lengths[lengths == 0] = 1.0
    scaled = matrix.data / np.repeat(lengths, np.diff(matrix.indptr))
    units = (scaled.astype(np.float32), matrix.indices, matrix.indptr)
    return sparse.csr_array(units, shape=matrix.shape)


def nearest(features: Any, centroids: Any, count: int) -> NDArray[np.int64]:
    """The labels whose centroids have the largest product with each sample, the best first.

    Only products that are above 0 count, and no more than a block of them is held at a time. What
    is looked at is what `naming_factors` keeps.

    Args:
        features: shape (samples, features), CSR.
        centroids: shape (labels, features), CSR.
        count: labels to name for each sample.

    Returns:
        Label indices of shape (samples, count), -1 where there are fewer.
    """
    features, columns = naming_factors(features, centroids)
    found = np.full((features.shape[0], count), -1, dtype=np.int64)
    most = max(BLOCK_PRODUCTS, BLOCK_PRODUCTS_OF_A_LABEL * columns.shape[1])
    pieces = pieces_of(columns)
    for first, last in blocks_of(features, np.diff(columns.indptr), most):
        rows, labels = _best_of(features[first:last], pieces, count)
        found[first + rows, places_in_rows(rows)] = labels
    return found


def _best_of(features: Any, pieces: Sequence[Any], count: int) -> tuple[Integers, Integers]:
    """Rows, ascending, and labels of the largest products above 0, of equal ones the first label.

    What so many labels of the first piece reach is each row's bound, so that few more are sorted.

    Args:
        features: shape (samples, features), CSR.
        pieces: the columns of the labels, CSR.
        count: labels of each row at most.
    """
    bound: NDArray[Any] | None = None
    parts, before = [], 0
    for piece in pieces:
        products = sparse.csr_array(features @ piece)
        if bound is None:
            bound = _reached(products, count)
        kept = np.flatnonzero(products.data >= np.repeat(bound, np.diff(products.indptr)))
        rows = np.searchsorted(products.indptr, kept, side="right") - 1
        parts.append((rows, before + products.indices[kept], products.data[kept]))
        before += piece.shape[1]
    rows, labels, values = (np.concatenate(part) for part in zip(*parts, strict=True))
    order = np.lexsort((labels, -values, rows))
    best = order[places_in_rows(rows[order]) < count]
    return rows[best], labels[best]


def _reached(products: Any, count: int) -> NDArray[Any]:
    """What so many products of each row reach; where there are fewer, the least above 0."""
    least = np.full(products.shape[0], np.nextafter(0, 1, dtype=products.dtype))
    for row, (start, end) in enumerate(itertools.pairwise(products.indptr.tolist())):
        values = products.data[start:end]
        place = len(values) - count
        if place >= 0:
            least[row] = max(least[row], np.partition(values, place)[place])
    return least


def places_in_rows(rows: Integers) -> Integers:
    """Of entries in the order of their rows, how many of its row come before each.

    Examples:
        >>> places_in_rows(np.array([0, 0, 2, 2, 2])).tolist()
        [0, 1, 0, 1, 2]
    """
    return np.arange(len(rows)) - np.searchsorted(rows, rows)


def pieces_of(columns: Any) -> "list[sparse.csr_array[Any]]":
    """The columns of a CSR matrix in pieces of `PIECE_LABELS`, itself where that is all."""
    num_labels = columns.shape[1]
    if num_labels <= PIECE_LABELS:
        return [columns]
    starts = range(0, num_labels, PIECE_LABELS)
    return [sparse.csr_array(columns[:, first : first + PIECE_LABELS]) for first in starts]


def naming_factors(
    features: Any, centroids: Any
) -> "tuple[sparse.csr_array[Any], sparse.csr_array[Any]]":
    """Features and transposed centroids without what hardly decides which labels are near.

    For each feature the 4,096 labels stay whose centroids have most of it, and of a sample the 256
    features that could add most to any product. Of these it is looked up by those that add most for
    the labels they have, until 16,384 products are made: words that most labels share come last.

    Args:
        features: shape (samples, features), CSR.
        centroids: shape (labels, features), CSR.

    Returns:
        Shapes (samples, features) and (features, labels), CSR.
    """
    columns = keep_largest(sparse.csr_array(centroids.T), FEATURE_LABELS)
    most = np.asarray(abs(columns).max(axis=1).toarray(), dtype=np.float32).ravel()
    features = sparse.csr_array(features)
    shares = np.abs(features.data) * most[features.indices]
    features = keep_largest(features, SAMPLE_FEATURES, sizes=shares)
    products = np.diff(columns.indptr)
    kept = [
        _affordable(features[first:last], most, products)
        for first, last in blocks_of(features, np.ones(features.shape[1]))
    ]
    empty = sparse.csr_array((0, features.shape[1]), dtype=features.dtype)
    return sparse.csr_array(sparse.vstack([empty, *kept], format="csr")), columns


def _affordable(
    features: Any, most: NDArray[np.float32], products: Integers
) -> "sparse.csr_array[Any]":
    """Of each sample the features that its products go round for, one at least.

    Args:
        features: shape (samples, features), CSR.
        most: the largest absolute value of each feature in a centroid.
        products: that each feature takes.
    """
    lengths, starts = np.diff(features.indptr), features.indptr[:-1]
    rows, taken = np.repeat(np.arange(len(lengths)), lengths), products[features.indices]
    worth = np.abs(features.data) * most[features.indices] / np.sqrt(np.maximum(taken, 1))
    order = np.lexsort((-worth, rows))
    spent = np.cumsum(taken[order], dtype=np.int64)
    before = np.concatenate([[0], spent])[starts]
    is_first = np.arange(len(order)) == np.repeat(starts, lengths)
    within = spent - np.repeat(before, lengths) <= SAMPLE_PRODUCTS
    kept = np.sort(order[within | is_first])
    cells = (features.data[kept], (rows[kept], features.indices[kept]))
    return sparse.csr_array(cells, shape=features.shape)


def log_lengths(features: Any) -> NDArray[np.float32]:
    """The logarithm of one plus each sample's number of features, shape (samples,).

    Rows of length one say less of each of their labels the more labels there are to speak of; how
    many features there are tells that.

    Args:
        features: of shape (samples, features), sparse or dense.

    Examples:
        >>> np.exp(log_lengths(sparse.csr_array(np.array([[0.0, 3.0], [0.0, 0.0]])))).tolist()
        [2.0, 1.0]
    """
    matrix = sparse.csr_array(features)
    if not matrix.has_canonical_format:  # a feature that is named twice is one
        matrix = matrix.copy()
        matrix.sum_duplicates()
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    counts = np.bincount(rows, matrix.data != 0, matrix.shape[0])
    return np.log1p(counts).astype(np.float32)


def as_matrix(candidates: NDArray[np.integer[Any]], num_labels: int) -> "sparse.csr_array[Any]":
    """Candidates as ones of a matrix of shape (samples, labels).

    Args:
        candidates: distinct label indices of shape (samples, k), -1 for none.
        num_labels: L.

    Examples:
        >>> as_matrix(np.array([[2, 0], [1, -1]]), 3).toarray().tolist()
        [[1, 0, 1], [0, 1, 0]]
    """
    rows, places = np.nonzero(candidates >= 0)
    ones = np.ones(len(rows), dtype=np.int8)
    shape = (len(candidates), num_labels)
    return sparse.csr_array((ones, (rows, candidates[rows, places])), shape=shape)


def blocks_of(
    rows: Any, lengths: NDArray[Any], most: int | None = None
) -> Iterator[tuple[int, int]]:
    """Ranges of rows whose product with rows of these lengths takes a bounded number of products.

    Args:
        rows: the product's first factor, CSR.
        lengths: stored entries in each row of the second.
        most: products of a range, unless one row alone takes more; None is `BLOCK_PRODUCTS`.
    """
    most = BLOCK_PRODUCTS if most is None else most
    before = np.concatenate([[0], np.cumsum(lengths[rows.indices], dtype=np.int64)])[rows.indptr]
    first = 0
    while first < rows.shape[0]:
        last = int(np.searchsorted(before, before[first] + most, side="right")) - 1
        last = min(max(last, first + 1), rows.shape[0])
        yield first, last
        first = last


def score_cells(
    features: Any, weight: Any, rows: Integers, labels: Integers
) -> NDArray[np.float32]:
    """The products of some samples with the weights of some labels.

    Args:
        features: shape (samples, features), CSR.
        weight: shape (labels, features), CSR.
        rows: a sample for each product.
        labels: a label for each product.
    """
    scores = np.empty(len(rows), dtype=np.float32)
    order = np.argsort(labels, kind="stable")
    width = weight.shape[1]
    dense = np.zeros(table_size(width), dtype=np.float32)
    for first, last, numbers in label_groups(labels[order], rows[order], features):
        cells = order[first:last]
        distinct = labels[cells][np.concatenate([[True], np.diff(numbers) > 0])]
        own = weight[distinct]
        held = np.repeat(np.arange(len(distinct)) * width, np.diff(own.indptr)) + own.indices
        dense[held] = own.data
        read = features[rows[cells]]
        read.indices += np.repeat(numbers * np.int32(width), np.diff(read.indptr))
        entries = (read.data, read.indices, read.indptr)
        scores[cells] = sparse.csr_array(entries, shape=(len(cells), len(dense))) @ dense
        dense[held] = 0.0
    return scores


def table_size(num_features: int) -> int:
    """Entries of a table with a place for every feature of a few labels, of one at least.

    Examples:
        >>> [table_size(features) // features for features in (1_000, 200_000, 5_000_000)]
        [2097, 64, 6]
    """
    width = max(num_features, 1)
    entries = max(TABLE, min(TABLE_LABELS * width, LARGEST_TABLE))
    return max(1, entries // width) * width


def label_groups(
    labels: Integers, rows: Integers, features: Any
) -> Iterator[tuple[int, int, NDArray[np.int32]]]:
    """Ranges of cells, whole labels each, whose labels and features fit a table.

    Args:
        labels: of each cell, ascending.
        rows: the sample of each.
        features: of the samples, CSR.

    Yields:
        First cell, last cell (exclusive), and the number of each one's label within the range.
    """
    if not len(labels):
        return
    most = table_size(features.shape[1]) // max(features.shape[1], 1)
    starts = np.concatenate([[0], np.flatnonzero(np.diff(labels)) + 1, [len(labels)]])
    entries = np.concatenate([[0], np.cumsum(np.diff(features.indptr)[rows], dtype=np.int64)])
    number = np.repeat(np.arange(len(starts) - 1, dtype=np.int32), np.diff(starts))
    held = entries[starts]  # before each label
    label = 0
    while label < len(starts) - 1:
        last = int(np.searchsorted(held, held[label] + GROUP_ENTRIES, side="right")) - 1
        last = min(max(last, label + 1), label + most, len(starts) - 1)
        cells = slice(starts[label], starts[last])
        yield int(starts[label]), int(starts[last]), number[cells] - np.int32(label)
        label = last
