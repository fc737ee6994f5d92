/* For a command without shared libraries.  libmicrohttpd.a names these functions of GnuTLS, but
 * calls only the first two unless it is asked for TLS, and 'kvshift serve' has no TLS. */
#include <stdlib.h>

int gnutls_global_init(void);
void gnutls_global_deinit(void);

int gnutls_global_init(void)
{
    return 0;
}

void gnutls_global_deinit(void)
{
}

#define NOT_CALLED(name)                                                                           \
    void name(void);                                                                               \
    void name(void)                                                                                \
    {                                                                                              \
        abort();                                                                                   \
    }

NOT_CALLED(gnutls_alpn_set_protocols)
NOT_CALLED(gnutls_bye)
NOT_CALLED(gnutls_certificate_allocate_credentials)
NOT_CALLED(gnutls_certificate_free_credentials)
NOT_CALLED(gnutls_certificate_server_set_request)
NOT_CALLED(gnutls_certificate_set_dh_params)
NOT_CALLED(gnutls_certificate_set_retrieve_function2)
NOT_CALLED(gnutls_certificate_set_retrieve_function3)
NOT_CALLED(gnutls_certificate_set_x509_key_mem)
NOT_CALLED(gnutls_certificate_set_x509_key_mem2)
NOT_CALLED(gnutls_certificate_set_x509_trust_mem)
NOT_CALLED(gnutls_cipher_get)
NOT_CALLED(gnutls_credentials_set)
NOT_CALLED(gnutls_deinit)
NOT_CALLED(gnutls_dh_params_deinit)
NOT_CALLED(gnutls_dh_params_import_pkcs3)
NOT_CALLED(gnutls_dh_params_init)
NOT_CALLED(gnutls_handshake)
NOT_CALLED(gnutls_init)
NOT_CALLED(gnutls_priority_deinit)
NOT_CALLED(gnutls_priority_init)
NOT_CALLED(gnutls_priority_set)
NOT_CALLED(gnutls_protocol_get_version)
NOT_CALLED(gnutls_psk_allocate_server_credentials)
NOT_CALLED(gnutls_psk_free_server_credentials)
NOT_CALLED(gnutls_psk_set_server_credentials_function)
NOT_CALLED(gnutls_record_check_pending)
NOT_CALLED(gnutls_record_get_direction)
NOT_CALLED(gnutls_record_recv)
NOT_CALLED(gnutls_record_send)
NOT_CALLED(gnutls_session_get_ptr)
NOT_CALLED(gnutls_session_set_ptr)
NOT_CALLED(gnutls_strerror)
NOT_CALLED(gnutls_transport_set_int2)

/* Variables that hold functions. */
void *(*gnutls_malloc)(size_t size);
void (*gnutls_free)(void *memory);
