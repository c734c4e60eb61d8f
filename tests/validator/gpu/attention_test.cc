#include "validator/kernels/attention.h"

#include "tests/validator/gpu/gpu_test.h"

namespace headroom::gpu {
namespace {

struct Case {
  std::vector<std::int32_t> queries, keys;  // lengths of the sequences
  std::int64_t heads, key_heads, head_dim;
  bool causal;
  bool offsets;  // pass the starts; else all lengths are equal
};

using Values = std::vector<double>;
std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

/// Attention and its gradients written out over the whole score matrix.
struct Reference {
  Values o, lse, d_q, d_k, d_v;

  Reference(const Case& c, const Values& q, const Values& k, const Values& v, const Values& d_o)
      : o(q.size()), d_q(q.size()), d_k(k.size()), d_v(v.size()) {
    std::int64_t tokens = 0, key_tokens = 0;
    for (auto n : c.queries) tokens += n;
    lse.resize(at(tokens * c.heads));
    tokens = 0;
    for (std::size_t s = 0; s < c.queries.size(); ++s) {
      for (std::int64_t h = 0; h < c.heads; ++h) {
        for (std::int64_t i = 0; i < c.queries[s]; ++i) row(c, s, h, tokens, key_tokens, i, q, k, v, d_o);
      }
      tokens += c.queries[s];
      key_tokens += c.keys[s];
    }
  }

 private:
  void row(const Case& c, std::size_t s, std::int64_t h, std::int64_t first, std::int64_t first_key,
           std::int64_t i, const Values& q, const Values& k, const Values& v, const Values& d_o) {
    const std::int64_t d = c.head_dim, kh = h / (c.heads / c.key_heads), total = std::ssize(lse) / c.heads;
    const double scale = 1 / std::sqrt(static_cast<double>(d));
    const std::int64_t qi = ((first + i) * c.heads + h) * d;
    const auto key = [&](std::int64_t j) { return ((first_key + j) * c.key_heads + kh) * d; };
    const std::int64_t end =
        c.causal ? std::min<std::int64_t>(c.keys[s], i + c.keys[s] - c.queries[s] + 1) : c.keys[s];
    Values p, d_p;
    double top = -1e300, sum = 0, delta = 0;
    for (std::int64_t j = 0; j < end; ++j) {
      double score = 0;
      for (std::int64_t e = 0; e < d; ++e) score += q[at(qi + e)] * k[at(key(j) + e)] * scale;
      p.push_back(score);
      top = std::max(top, score);
    }
    for (double& x : p) sum += x = std::exp(x - top);
    lse[at(h * total + first + i)] = top + std::log(sum);
    for (std::int64_t j = 0; j < end; ++j) {
      p[at(j)] /= sum;
      double dot = 0;
      for (std::int64_t e = 0; e < d; ++e) {
        o[at(qi + e)] += p[at(j)] * v[at(key(j) + e)];
        d_v[at(key(j) + e)] += p[at(j)] * d_o[at(qi + e)];
        dot += v[at(key(j) + e)] * d_o[at(qi + e)];
      }
      d_p.push_back(dot);
      delta += p[at(j)] * dot;
    }
    for (std::int64_t j = 0; j < end; ++j) {
      const double d_s = p[at(j)] * (d_p[at(j)] - delta) * scale;
      for (std::int64_t e = 0; e < d; ++e) {
        d_q[at(qi + e)] += d_s * k[at(key(j) + e)];
        d_k[at(key(j) + e)] += d_s * q[at(qi + e)];
      }
    }
  }
};

class AttentionTest : public GpuKernelTest {
 protected:
  static std::vector<std::int32_t> starts(const std::vector<std::int32_t>& lengths) {
    std::vector<std::int32_t> sums = {0};
    for (auto n : lengths) sums.push_back(sums.back() + n);
    return sums;
  }
  static std::int64_t longest(const std::vector<std::int32_t>& lengths) {
    return *std::max_element(lengths.begin(), lengths.end());
  }
  void check(const Case& c);
};
HEADROOM_ALL_FLOATS(AttentionTest);

void AttentionTest::check(const Case& c) {
  const auto query_starts = starts(c.queries), key_starts = starts(c.keys);
  const std::int64_t n = query_starts.back() * c.heads * c.head_dim,
                     m = key_starts.back() * c.key_heads * c.head_dim;
  auto q = normal(n), k = normal(m), v = normal(m), d = normal(n);
  const DeviceArray aq(dtype(), q), ak(dtype(), k), av(dtype(), v), ad(dtype(), d), qs(query_starts),
      ks(key_starts);
  const DeviceArray o(dtype(), n), dq(dtype(), n), dk(dtype(), m), dv(dtype(), m),
      lse(DType::fp32, query_starts.back() * c.heads), delta(DType::fp32, query_starts.back() * c.heads);
  const Attention a{.dtype = dtype(),
                    .batch = std::ssize(c.queries),
                    .query_length = longest(c.queries),
                    .key_length = longest(c.keys),
                    .heads = c.heads,
                    .key_heads = c.key_heads,
                    .head_dim = c.head_dim,
                    .query_starts = c.offsets ? qs.as<std::int32_t>() : nullptr,
                    .key_starts = c.offsets ? ks.as<std::int32_t>() : nullptr,
                    .query_tokens = query_starts.back(),
                    .causal = c.causal,
                    .q = aq.data(),
                    .k = ak.data(),
                    .v = av.data(),
                    .o = o.data(),
                    .logsumexp = lse.as<float>()};
  EXPECT_OK(attention_forward(a, stream()));
  EXPECT_OK(attention_backward(
      a, {.d_o = ad.data(), .d_q = dq.data(), .d_k = dk.data(), .d_v = dv.data(), .delta = delta.as<float>()},
      stream()));
  const Reference want(c, q, k, v, d);
  // The gradients multiply rounded probabilities with rounded tensors once more.
  EXPECT_LT(relative_error(o.read(), want.o), bound());
  EXPECT_LT(relative_error(lse.read(), want.lse), bound() / 2);
  EXPECT_LT(relative_error(dv.read(), want.d_v), bound());
  EXPECT_LT(relative_error(dq.read(), want.d_q), 2 * bound());
  EXPECT_LT(relative_error(dk.read(), want.d_k), 2 * bound());
}

TEST_P(AttentionTest, EqualSequences) {
  check({{200, 200}, {200, 200}, 4, 4, 64, true, false});
}
TEST_P(AttentionTest, GroupedHeads) {
  check({{130}, {130}, 6, 2, 128, true, false});
}
TEST_P(AttentionTest, WithoutMask) {
  check({{77}, {150}, 2, 1, 80, false, false});
}
TEST_P(AttentionTest, PackedSequences) {
  check({{1, 64, 129, 3}, {1, 64, 129, 3}, 4, 2, 128, true, true});
}
TEST_P(AttentionTest, LastQueriesOfLongerKeys) {
  check({{1, 70}, {100, 200}, 4, 1, 64, true, true});
}
TEST_P(AttentionTest, WideHeads) {
  check({{90}, {90}, 2, 1, 256, true, false});
}
TEST_P(AttentionTest, NarrowHeads) {
  check({{90}, {90}, 2, 2, 8, true, false});
}

TEST_P(AttentionTest, SizesThatItCannotDoAreRefused) {
  const DeviceArray x(dtype(), 64);
  Attention a{.dtype = dtype(),
              .batch = 1,
              .query_length = 1,
              .key_length = 1,
              .heads = 3,
              .key_heads = 2,
              .head_dim = 64};
  EXPECT_FALSE(attention_forward(a, stream()));
  a.key_heads = 3;
  a.head_dim = 12;
  EXPECT_FALSE(attention_forward(a, stream()));
}

}  // namespace
}  // namespace headroom::gpu
