// Transpositions: tiles of at most 64 x 64 elements, whose reads and writes both run along whole cache lines. A tile is
// transposed in registers, square by square: unpacking inside 128-bit parts, then exchanging those parts. A copy stores
// the squares at once; other bodies read them from scratch, row by row.
#include "LoopEmit.h"

using namespace mlir;

namespace mrcc::loops {

using Op = ExprNode::Op;

/// The view's unit step is the tile's column level, not the row level that outputs run along.
bool Emitter::isColumn(unsigned view) const {
  return plan.transpose && view >= plan.outputs && !plan.indexed(view) &&
         plan.steps[view][plan.parallel - 2] == Step::unit && plan.steps[view][plan.parallel - 1] == Step::strided;
}

/// n vectors of n elements: vector i of the result holds element i of each.
SmallVector<Value> Emitter::transposed(SmallVector<Value> rows) {
  auto type = cast<VectorType>(rows[0].getType());
  const int64_t n = rows.size(), part = std::min<int64_t>(n, 128 / type.getElementTypeBitWidth()), parts = n / part;
  auto shuffle = [&](Value a, Value b, llvm::function_ref<int64_t(int64_t)> from) {
    SmallVector<int64_t> mask;
    for (int64_t i = 0; i < n; ++i)
      mask.push_back(from(i));
    return vector::ShuffleOp::create(kb.b, kb.loc, a, b, mask).getResult();
  };
  // Inside parts: log2(part) perfect shuffles of the rows i and i + part / 2 of each group of `part` rows.
  for (int64_t stage = 1; stage < part; stage *= 2) {
    SmallVector<Value> next(n);
    for (int64_t group = 0; group < n; group += part)
      for (int64_t i = 0; i < part / 2; ++i)
        for (int64_t high = 0; high < 2; ++high)
          next[group + 2 * i + high] = shuffle(rows[group + i], rows[group + i + part / 2], [&](int64_t e) {
            int64_t inPart = e % part;
            return (inPart % 2 ? n : 0) + e - inPart + high * (part / 2) + inPart / 2;
          });
    rows = next;
  }
  // Parts: element e of part p of row k of group g belongs to vector p * part + k, at g * part + e.
  auto exchange = [&](Value a, Value b, std::array<int64_t, 4> pick) { // numbers of parts, b's follow a's
    return shuffle(a, b, [&](int64_t e) {
      int64_t p = pick[e / part];
      return (p >= parts ? n : 0) + (p % parts) * part + e % part;
    });
  };
  SmallVector<Value> result(n);
  for (int64_t k = 0; k < part; ++k) {
    if (parts == 1) {
      result[k] = rows[k];
    } else if (parts == 2) {
      result[k] = exchange(rows[k], rows[part + k], {0, 2});
      result[part + k] = exchange(rows[k], rows[part + k], {1, 3});
    } else {
      Value a = rows[k], b = rows[part + k], c = rows[2 * part + k], d = rows[3 * part + k];
      for (int64_t half = 0; half < 2; ++half) {
        Value s = exchange(a, b, {2 * half, 2 * half + 1, 4 + 2 * half, 5 + 2 * half});
        Value t = exchange(c, d, {2 * half, 2 * half + 1, 4 + 2 * half, 5 + 2 * half});
        result[2 * half * part + k] = exchange(s, t, {0, 2, 4, 6});
        result[(2 * half + 1) * part + k] = exchange(s, t, {1, 3, 5, 7});
      }
    }
  }
  return result;
}

/// The tile of `view` in squares; the last ones overlap those before. put(column, row, vector along rows).
void Emitter::transposeTile(unsigned view, Index column, Index row, Index columns, Index rows,
                            llvm::function_ref<void(Index, Index, Value)> put) {
  Type element = memoryType(kb.b.getContext(), plan.types[view]);
  unsigned bits = element.getIntOrFloatBitWidth();
  const int64_t n = bits <= 16 ? 128 / bits : kb.target.vectorBits / bits;
  Buffer raw{views[view].memref, element};
  Index along = stride(view, plan.parallel - 1);
  kb.loop(0, columns, n, [&](Index c) {
    Index atColumn = kb.add(column, kb.min(c, kb.sub(columns, n)));
    kb.loop(0, rows, n, [&](Index r) {
      Index atRow = kb.add(row, kb.min(r, kb.sub(rows, n)));
      Index base = kb.add(kb.add(state.offsets[view], atColumn), kb.mul(atRow, along));
      SmallVector<Value> square;
      for (int64_t i = 0; i < n; ++i)
        square.push_back(kb.loadVector(raw, {kb.add(base, kb.mul(i, along))}, n));
      for (auto [i, v] : llvm::enumerate(transposed(square)))
        put(kb.add(atColumn, int64_t(i)), atRow, v);
    });
  });
}

void Emitter::tileRow(Index block) {
  const unsigned columnLevel = plan.parallel - 2, rowLevel = plan.parallel - 1;
  Index across = kb.param(Params::blockSize), down = kb.div(kb.param(Params::blocks), across);
  auto part = [&](Index k, Index parts, unsigned level) { // even parts
    Index from = kb.div(kb.mul(k, extent(level)), parts), to = kb.div(kb.mul(kb.add(k, 1), extent(level)), parts);
    return std::pair(from, to);
  };
  auto [firstColumn, lastColumn] = part(kb.div(block, across), down, columnLevel);
  auto [firstRow, lastRow] = part(kb.rem(block, across), across, rowLevel);
  Index columns = kb.sub(lastColumn, firstColumn), rows = kb.sub(lastRow, firstRow);
  const Expr &body = plan.body;
  if (body.nodes.size() == 1 && body.nodes[0].op == Op::load && isColumn(plan.outputs + body.nodes[0].imm)) {
    unsigned view = plan.outputs + body.nodes[0].imm;
    Buffer out{views[0].memref, memoryType(kb.b.getContext(), plan.types[0])};
    transposeTile(view, firstColumn, firstRow, columns, rows, [&](Index c, Index r, Value v) {
      kb.storeVector(v, out, {kb.add(kb.add(state.offsets[0], kb.mul(c, stride(0, columnLevel))), r)});
    });
    return;
  }
  SmallVector<Buffer> outside = views;
  SmallVector<unsigned> moved;
  for (unsigned v = plan.outputs; v < plan.types.size(); ++v) {
    if (!isColumn(v))
      continue;
    Buffer tile = kb.scratch(int64_t(moved.size()) * tileSide * tileSide * 8, plan.types[v], {tileSide * tileSide});
    Buffer raw{tile.memref, memoryType(kb.b.getContext(), plan.types[v])};
    transposeTile(v, firstColumn, firstRow, columns, rows,
                  [&, first = firstColumn, start = firstRow](Index c, Index r, Value x) {
                    kb.storeVector(x, raw, {kb.add(kb.mul(kb.sub(c, first), tileSide), kb.sub(r, start))});
                  });
    moved.push_back(v);
    outside[v] = views[v];
    views[v] = tile;
  }
  inTile = true;
  kb.loop(firstColumn, lastColumn, 1, [&, first = firstColumn, start = firstRow, end = lastRow](Index c) {
    scoped([&] {
      enter(columnLevel, c);
      for (unsigned v : moved) // mapRow adds the row
        state.offsets[v] = kb.sub(kb.mul(kb.sub(c, first), tileSide), start);
      mapRow(start, end);
    });
  });
  inTile = false;
  for (unsigned v : moved)
    views[v] = outside[v];
}

} // namespace mrcc::loops
