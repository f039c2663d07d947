// What matmul.h and lu.h include for each type: the lanes of a VECTOR are WIDTH adjacent numbers of type NUMBER.
#define WIDTH ((int)(sizeof(VECTOR) / sizeof(NUMBER)))

static inline VECTOR NAMED(read)(const NUMBER *source) {
    VECTOR lanes;
    memcpy(&lanes, source, sizeof lanes);
    return lanes;
}

static inline void NAMED(write)(NUMBER *target, VECTOR lanes) {
    memcpy(target, &lanes, sizeof lanes);
}
