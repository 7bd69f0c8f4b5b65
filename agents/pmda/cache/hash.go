package cache

// hash is Bob Jenkins' lookup2 of 1996, which is in the public domain
// (https://burtleburtle.net/bob/hash/evahash.html), except that bytes are signed,
// as in PCP.
func hash[B []byte | string](key B, seed uint32) uint32 {
	const golden = 0x9e3779b9
	a, b, c := uint32(golden), uint32(golden), seed
	n := uint32(len(key))
	for ; len(key) >= 12; key = key[12:] {
		a += word(key[:4])
		b += word(key[4:8])
		c += word(key[8:12])
		a, b, c = mix(a, b, c)
	}
	// The last 0 to 11 bytes. The lowest byte of c is for the length.
	c += n
	a += word(key[:min(4, len(key))])
	if len(key) > 4 {
		b += word(key[4:min(8, len(key))])
	}
	if len(key) > 8 {
		c += word(key[8:]) << 8
	}
	_, _, c = mix(a, b, c)
	return c
}

// word adds up to 4 signed bytes, the lowest first. A negative byte borrows from the
// higher ones.
func word[B []byte | string](p B) (w uint32) {
	for i := range len(p) {
		w += uint32(int8(p[i])) << (8 * i)
	}
	return w
}

// mix mixes three words.
func mix(a, b, c uint32) (_, _, _ uint32) {
	a = (a - b - c) ^ c>>13
	b = (b - c - a) ^ a<<8
	c = (c - a - b) ^ b>>13
	a = (a - b - c) ^ c>>12
	b = (b - c - a) ^ a<<16
	c = (c - a - b) ^ b>>5
	a = (a - b - c) ^ c>>3
	b = (b - c - a) ^ a<<10
	c = (c - a - b) ^ b>>15
	return a, b, c
}
