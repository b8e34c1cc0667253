// Sha256 by OpenSSL's libcrypto.
#include <fmt/core.h>
#include <openssl/evp.h>

#include "core/support/digest.h"
#include "core/support/error.h"

namespace lathe {

Sha256::Sha256() : state_(EVP_MD_CTX_new()) {
  // Fails for want of memory, or where a policy of the system forbids SHA-256: nothing here works without.
  CHECK(state_ && EVP_DigestInit_ex(static_cast<EVP_MD_CTX*>(state_), EVP_sha256(), nullptr) == 1);
}

Sha256::~Sha256() { EVP_MD_CTX_free(static_cast<EVP_MD_CTX*>(state_)); }

void Sha256::add(std::string_view bytes) {
  CHECK(EVP_DigestUpdate(static_cast<EVP_MD_CTX*>(state_), bytes.data(), bytes.size()) == 1);
}

std::string Sha256::digest() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  CHECK(EVP_DigestFinal_ex(static_cast<EVP_MD_CTX*>(state_), digest, &size) == 1);
  std::string text;
  for (unsigned i = 0; i < size; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}

}  // namespace lathe
