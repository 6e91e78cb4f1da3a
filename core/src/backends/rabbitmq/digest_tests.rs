use super::sha256;

fn hex([high, low]: [u128; 2]) -> String {
    format!("{high:032x}{low:032x}")
}

#[test]
fn the_published_digests_come_out() {
    // FIPS 180-4, appendix B.
    let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(hex(sha256(b"abc")), abc);
    let long = b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    let digest = "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1";
    assert_eq!(hex(sha256(long)), digest);
}

#[test]
fn bytes_of_every_length_around_a_block_come_out_as_from_another_implementation() {
    let given = [
        (0u32, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        (1u32, "4bf5122f344554c53bde2ebb8cd2b7e3d1600ad631c385a5d7cce23c7785459a"),
        (3u32, "6ab0dba1f4f1dfbb37b4f9eeb092c09fca4900ad32bdcd147d8dde35d6c87c35"),
        (55u32, "81afe5b788dc2ce138ff83d9b20164db75a94d75d2b2432eea4a0ef605088c72"),
        (56u32, "2aba54f0ac632420a2b502431408866e40e1d5e430df4cd822642c78ab2eb9c1"),
        (57u32, "903284efbf9100e8ba1614ec65eacacad125e03f857cae7acbf8b73b23e0fdfe"),
        (63u32, "733d3d4ee79ee67145bf73da13588f6f235d37414fc64b14a2f00f1762792f5e"),
        (64u32, "79322907b3e9d013d7dc2c2f256674dbf733045cde01df3539271c6f5605feb8"),
        (65u32, "d85c007c6eb440f085afa2b84f6f2bce4658b240e9f62cb1364bf0485a57e720"),
        (119u32, "6c87eedf096b345de205b702e5223b73b447a3207791ded3ea007ba15ed6736e"),
        (120u32, "42500cf6a1e3936d6b9e0bcfe296d654b63255e525487d3634d0b15fde591c4d"),
        (200u32, "8e3f3819b4f1b1f71c011c6b854c43601f132c3c88b8982b20733d2b1695c593"),
        (1000u32, "6b0df76627243d095b0c4400cb658b7e804dd03461cc03aee8fc8fe0bcada168"),
    ];
    for (length, digest) in given {
        let bytes: Vec<u8> = (0..length).map(|at| (at * 7 + length).to_le_bytes()[0]).collect();
        assert_eq!(hex(sha256(&bytes)), digest, "{length}");
    }
}
