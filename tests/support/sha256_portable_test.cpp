// The SHA-256 of builds without libcrypto, which is linked here in the place of libcrypto's, against
// libcrypto's.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <openssl/sha.h>

#include "core/support/digest.h"

namespace lathe {
namespace {

std::string reference(const std::string& bytes) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest);
  return fmt::format("{:02x}", fmt::join(digest, ""));
}

TEST(PortableSha256, IsThatOfTheStandard) {
  Sha256 sum;
  sum.add("abc");
  EXPECT_EQ(sum.digest(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(PortableSha256, AgreesWithLibcryptoAtAnyLengthInAnyPieces) {
  std::string bytes;
  for (size_t size = 0; size < 300; ++size) {
    Sha256 sum;
    sum.add(std::string_view(bytes).substr(0, size / 3));
    sum.add(std::string_view(bytes).substr(size / 3));
    EXPECT_EQ(sum.digest(), reference(bytes)) << size << " bytes";
    bytes += static_cast<char>(37 * size + 11);
  }
}

}  // namespace
}  // namespace lathe
