// FIPS 180-4. Two ways to do a block: plain code, and x86's SHA instructions, which do four rounds in two steps.
#include "mrcc/Support/Sha256.h"
#include "llvm/ADT/StringExtras.h"
#include <bit>
#include <cstring>
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

using namespace mrcc;

alignas(16) static constexpr uint32_t roundConstants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static void plainBlocks(uint32_t *state, const uint8_t *data, size_t count) {
  for (; count; --count, data += 64) {
    uint32_t w[64], s[8];
    for (int i = 0; i < 16; ++i)
      w[i] = uint32_t(data[4 * i]) << 24 | uint32_t(data[4 * i + 1]) << 16 | uint32_t(data[4 * i + 2]) << 8 |
             data[4 * i + 3];
    for (int i = 16; i < 64; ++i) {
      uint32_t a = w[i - 15], b = w[i - 2];
      w[i] = w[i - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) + w[i - 7] +
             (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
    }
    std::memcpy(s, state, sizeof s);
    for (int i = 0; i < 64; ++i) {
      uint32_t e = s[4], a = s[0];
      uint32_t t1 = s[7] + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & s[5]) ^ (~e & s[6])) +
                    roundConstants[i] + w[i];
      uint32_t t2 = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
      std::memmove(s + 1, s, 7 * sizeof *s);
      s[4] += t1;
      s[0] = t1 + t2;
    }
    for (int i = 0; i < 8; ++i)
      state[i] += s[i];
  }
}

#if defined(__x86_64__)
static bool hasInstructions() {
  unsigned a, b, c, d;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b >> 29 & 1))
    return false;
  return __get_cpuid(1, &a, &b, &c, &d) && (c >> 19 & 1) && (c >> 9 & 1); // SSE4.1, SSSE3
}

/// The instructions want the state as (a, b, e, f) and (c, d, g, h), highest word first.
__attribute__((target("sha,sse4.1,ssse3"))) static void fastBlocks(uint32_t *state, const uint8_t *data, size_t count) {
  __m128i low = _mm_loadu_si128(reinterpret_cast<__m128i *>(state)),
          high = _mm_loadu_si128(reinterpret_cast<__m128i *>(state + 4));
  low = _mm_shuffle_epi32(low, 0xb1);   // b a d c
  high = _mm_shuffle_epi32(high, 0x1b); // h g f e
  __m128i abef = _mm_alignr_epi8(low, high, 8), cdgh = _mm_blend_epi16(high, low, 0xf0);
  const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  for (; count; --count, data += 64) {
    __m128i w[4], oldAbef = abef, oldCdgh = cdgh;
#pragma clang loop unroll(full)
    for (int i = 0; i < 16; ++i) {
      __m128i &now = w[i & 3];
      if (i < 4) {
        now = _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i *>(data) + i), swap);
      } else {
        __m128i last = w[(i + 3) & 3], between = _mm_alignr_epi8(last, w[(i + 2) & 3], 4);
        now = _mm_sha256msg2_epu32(_mm_add_epi32(_mm_sha256msg1_epu32(now, w[(i + 1) & 3]), between), last);
      }
      __m128i k = _mm_add_epi32(now, _mm_load_si128(reinterpret_cast<const __m128i *>(roundConstants) + i));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, k);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(k, 0x0e));
    }
    abef = _mm_add_epi32(abef, oldAbef);
    cdgh = _mm_add_epi32(cdgh, oldCdgh);
  }
  __m128i feba = _mm_shuffle_epi32(abef, 0x1b), dchg = _mm_shuffle_epi32(cdgh, 0xb1);
  _mm_storeu_si128(reinterpret_cast<__m128i *>(state), _mm_blend_epi16(feba, dchg, 0xf0));
  _mm_storeu_si128(reinterpret_cast<__m128i *>(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}
#endif

void Sha256::blocks(const uint8_t *data, size_t count) {
#if defined(__x86_64__)
  static const bool fast = hasInstructions();
  if (fast && !portable)
    return fastBlocks(state.data(), data, count);
#endif
  plainBlocks(state.data(), data, count);
}

void Sha256::update(llvm::ArrayRef<uint8_t> bytes) {
  total += bytes.size();
  if (pendingSize) {
    size_t n = std::min(bytes.size(), pending.size() - pendingSize);
    std::memcpy(pending.data() + pendingSize, bytes.data(), n);
    pendingSize += n;
    bytes = bytes.drop_front(n);
    if (pendingSize < pending.size())
      return;
    blocks(pending.data(), 1);
    pendingSize = 0;
  }
  blocks(bytes.data(), bytes.size() / 64);
  bytes = bytes.drop_front(bytes.size() / 64 * 64);
  if (!bytes.empty())
    std::memcpy(pending.data(), bytes.data(), bytes.size());
  pendingSize = bytes.size();
}

std::array<uint8_t, 32> Sha256::digest() {
  uint64_t bits = total * 8;
  uint8_t tail[72] = {0x80};
  size_t size = (pendingSize < 56 ? 56 : 120) - pendingSize;
  for (int i = 0; i < 8; ++i)
    tail[size + size_t(i)] = uint8_t(bits >> (56 - 8 * i));
  update({tail, size + 8});
  std::array<uint8_t, 32> out;
  for (size_t i = 0; i < 32; ++i)
    out[i] = uint8_t(state[i / 4] >> (24 - 8 * (i % 4)));
  return out;
}

std::string Sha256::hex() { return llvm::toHex(digest(), /*LowerCase=*/true); }
