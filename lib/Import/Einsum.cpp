// Einsum: operands are reduced to their needed labels, then joined from left to right by one batched matmul each, whose
// batch labels are those that both sides have and someone still needs, whose inner labels are those that both have and
// no one needs.
#include "Node.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mrcc;

namespace {

/// Labels are letters; dimensions of an ellipsis get the characters after 'z', aligned at the right.
struct Term {
  Value value;
  std::string labels;
};

class Einsum {
public:
  explicit Einsum(NodeContext &c) : c(c) {}
  void run();

private:
  bool parse(std::string equation);
  std::string expand(StringRef term, int64_t rank);
  void takeDiagonals(Term &term);
  void reduceTo(Term &term, StringRef needed);
  Term join(Term a, Term b, StringRef needed);
  Value arrange(const Term &term, StringRef labels);
  Extent dimOf(const Term &term, char label) { return c.dimOf(term.value, int64_t(term.labels.find(label))); }

  NodeContext &c;
  std::vector<Term> terms;
  std::string output;
  int64_t ellipsis = 0; // most dimensions that an ellipsis stands for
};

std::string Einsum::expand(StringRef term, int64_t rank) {
  auto [before, after] = term.split("...");
  if (!term.contains("..."))
    return term.str();
  int64_t count = rank - int64_t(before.size() + after.size());
  std::string out = before.str();
  for (int64_t i = 0; i < count; ++i)
    out += char('z' + 1 + ellipsis - count + i);
  return out + after.str();
}

bool Einsum::parse(std::string equation) {
  llvm::erase(equation, ' ');
  auto [left, right] = StringRef(equation).split("->");
  SmallVector<StringRef> parts;
  left.split(parts, ',');
  auto bad = [&](const Twine &why) {
    c.invalid("equation '" + equation + "': " + why);
    return false;
  };
  if (parts.size() != c.count())
    return bad(Twine(parts.size()) + " terms for " + Twine(c.count()) + " inputs");
  for (auto [i, part] : llvm::enumerate(parts)) {
    std::string letters = part.str();
    if (size_t at = letters.find("..."); at != std::string::npos) {
      letters.erase(at, 3);
      ellipsis = std::max(ellipsis, c.rank(c.in(i)) - int64_t(letters.size()));
    }
    if (!llvm::all_of(letters, llvm::isAlpha) || int64_t(letters.size()) > c.rank(c.in(i)))
      return bad("term '" + part + "' does not fit rank " + Twine(c.rank(c.in(i))));
  }
  if (ellipsis < 0 || ellipsis > 32)
    return bad("too many dimensions");
  for (auto [i, part] : llvm::enumerate(parts)) {
    terms.push_back({c.in(i), expand(part, c.rank(c.in(i)))});
    if (int64_t(terms.back().labels.size()) != c.rank(c.in(i)))
      return bad("term '" + part + "' does not fit rank " + Twine(c.rank(c.in(i))));
  }
  std::string all;
  for (const Term &t : terms)
    all += t.labels;
  if (StringRef(equation).contains("->")) {
    output = expand(right, int64_t(right.size()) - 3 + ellipsis);
    for (char l : output)
      if (all.find(l) == std::string::npos || llvm::count(output, l) > 1)
        return bad("its output label '" + Twine(l) + "' is in no input, or there twice");
    return true;
  }
  for (int64_t i = 0; i < ellipsis; ++i) // implicit output: the ellipsis, then labels that occur once, in order
    output += char('z' + 1 + i);
  for (char l = 'A'; l <= 'z'; ++l)
    if (llvm::count(all, l) == 1)
      output += l;
  return true;
}

/// A label that is there twice in one term: only the diagonal counts.
void Einsum::takeDiagonals(Term &term) {
  for (size_t j = 1; j < term.labels.size(); ++j)
    if (size_t i = term.labels.find(term.labels[j]); i < j) {
      auto index = [&](size_t axis) { return c.make<IotaOp>(term.value, int64_t(axis), c.builder.getI64Type()); };
      Value hit = c.binary(BinaryKind::eq, index(i), index(j));
      Value kept = c.select(hit, term.value, c.scalar(0, term.value));
      term.value = c.reduce(ReduceKind::sum, kept, int64_t(j), false);
      term.labels.erase(j--, 1);
    }
}

/// Sums over the labels that nobody needs.
void Einsum::reduceTo(Term &term, StringRef needed) {
  SmallVector<int64_t> axes;
  std::string kept;
  for (auto [i, l] : llvm::enumerate(term.labels)) {
    if (needed.contains(l))
      kept += l;
    else
      axes.push_back(int64_t(i));
  }
  if (axes.empty())
    return;
  term.value = c.reduce(ReduceKind::sum, term.value, axes, false);
  term.labels = kept;
}

Value Einsum::arrange(const Term &term, StringRef labels) {
  SmallVector<int64_t> perm;
  for (char l : labels)
    perm.push_back(int64_t(term.labels.find(l)));
  return c.transpose(term.value, perm);
}

Term Einsum::join(Term a, Term b, StringRef needed) {
  std::string batch, inner, left, right;
  for (char l : a.labels) {
    bool shared = b.labels.find(l) != std::string::npos;
    (!shared ? left : needed.contains(l) ? batch : inner) += l;
  }
  for (char l : b.labels)
    if (a.labels.find(l) == std::string::npos)
      right += l;
  // A dimension of 1 broadcasts against the other side's: as a batch label of a matmul it does so by itself when it
  // stands alone, so batch labels keep a dimension each.
  SmallVector<Extent> aBatch, bBatch, aSizes, bSizes;
  for (char l : batch) {
    aBatch.push_back(dimOf(a, l));
    bBatch.push_back(dimOf(b, l));
  }
  auto matrix = [&](const Term &t, const std::string &rows, const std::string &columns, SmallVector<Extent> dims,
                    SmallVectorImpl<Extent> &sizes) {
    SmallVector<Extent> rowDims, columnDims;
    for (char l : rows)
      rowDims.push_back(dimOf(t, l));
    for (char l : columns)
      columnDims.push_back(dimOf(t, l));
    sizes.append(&t == &a ? rowDims : columnDims);
    dims.push_back(c.product(rowDims));
    dims.push_back(c.product(columnDims));
    return c.reshapeTo(arrange(t, batch + rows + columns), dims);
  };
  Value x = matrix(a, left, inner, aBatch, aSizes), y = matrix(b, inner, right, bBatch, bSizes);
  Value product = c.make<MatMulOp>(x, y);
  SmallVector<Extent> dims;
  for (size_t i = 0; i < batch.size(); ++i)
    dims.push_back(c.dimOf(product, int64_t(i)));
  dims.append(aSizes);
  dims.append(bSizes);
  return {c.reshapeTo(product, dims), batch + left + right};
}

void Einsum::run() {
  if (!parse(c.text("equation", "")))
    return;
  for (Term &term : terms)
    takeDiagonals(term);
  auto neededFrom = [&](size_t first) { // by the output and by the terms from here on
    std::string labels = output;
    for (size_t i = first; i < terms.size(); ++i)
      labels += terms[i].labels;
    return labels;
  };
  Term done = terms[0];
  reduceTo(done, neededFrom(1));
  for (size_t i = 1; i < terms.size(); ++i) {
    Term next = terms[i];
    std::string later = neededFrom(i + 1);
    reduceTo(next, done.labels + later);
    reduceTo(done, next.labels + later);
    done = join(std::move(done), std::move(next), later);
    reduceTo(done, later);
  }
  reduceTo(done, output);
  c.result(arrange(done, output));
}

} // namespace

static void einsum(NodeContext &c) { Einsum(c).run(); }

void mrcc::addEinsum(HandlerTable &t) { t.add("Einsum", einsum); }
