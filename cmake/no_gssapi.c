// What libzmq.a names of GSSAPI, of which Debian has no archive. None of it is used: it belongs to a mechanism
// that no socket of ours asks for, and both ends name theirs before the handshake.
#include <stdlib.h>

#define NEVER_CALLED(name) \
  void name(void) { abort(); }

NEVER_CALLED(gss_accept_sec_context)
NEVER_CALLED(gss_acquire_cred)
NEVER_CALLED(gss_delete_sec_context)
NEVER_CALLED(gss_display_name)
NEVER_CALLED(gss_import_name)
NEVER_CALLED(gss_init_sec_context)
NEVER_CALLED(gss_release_buffer)
NEVER_CALLED(gss_release_cred)
NEVER_CALLED(gss_release_name)
NEVER_CALLED(gss_unwrap)
NEVER_CALLED(gss_wrap)

void* GSS_C_NT_HOSTBASED_SERVICE = NULL;
void* GSS_C_NT_USER_NAME = NULL;
