#include "kernels/cpu/unit.h"

#include "kernels/cpu/unit_tiles.h"

const unit *LEVEL(unit_of)(const kvsi_context *c, kvsi_dtype b)
{
    if (c->exact && c->precision == KVSI_PRECISION_F32)
        return &LEVEL(unit_f32);
#ifdef KVSI_TILES
    return LEVEL(unit_tiles)(c->precision, b);
#else
    (void)b;
    return c->precision == KVSI_PRECISION_BF16 ? LEVEL(unit_bf16)() : &LEVEL(unit_f32);
#endif
}
