// (1 - w)^m for w = 1/512: what is left of RED's average after m packet times on an idle link.
//
// 255 prefixes of m, 1..4095: each m below 64 has its own, and above there are 32 in each octave,
// with the factor of their middle. Factors have 16 fraction bits. In octave 2^k the exponent is off
// by at most 2^(k - 6), hence the factor by at most 2^(k - 15) of itself: 0.2 % at m = 64, 3 % at
// m = 1024, where 0.14 of the average is left. Multiplication: 16 by 16 bits, twice.
#ifndef TIERCAST_RED_IDLE_DECAY_P4
#define TIERCAST_RED_IDLE_DECAY_P4

control RedIdleDecay(in bit<16> packets, inout bit<32> average) {
    action decay(bit<32> factor) {
        average = (average >> 16) * factor + (((average & 0xffff) * factor) >> 16);
    }

    // Whole bytes: bmv2 takes no prefix of a key of 12 bits.
    // Entry: 16 bits of key with their mask, 32 of action data.
    @name(".red_idle_decay")
    table red_idle_decay {
        key = { packets: lpm @name("packets"); }
        actions = { decay; @defaultonly NoAction; }
        const default_action = NoAction();
        const entries = {
            0x0001: decay(65408);
            0x0002: decay(65280);
            0x0003: decay(65153);
            0x0004: decay(65025);
            0x0005: decay(64898);
            0x0006: decay(64772);
            0x0007: decay(64645);
            0x0008: decay(64519);
            0x0009: decay(64393);
            0x000a: decay(64267);
            0x000b: decay(64142);
            0x000c: decay(64016);
            0x000d: decay(63891);
            0x000e: decay(63767);
            0x000f: decay(63642);
            0x0010: decay(63518);
            0x0011: decay(63394);
            0x0012: decay(63270);
            0x0013: decay(63146);
            0x0014: decay(63023);
            0x0015: decay(62900);
            0x0016: decay(62777);
            0x0017: decay(62654);
            0x0018: decay(62532);
            0x0019: decay(62410);
            0x001a: decay(62288);
            0x001b: decay(62166);
            0x001c: decay(62045);
            0x001d: decay(61924);
            0x001e: decay(61803);
            0x001f: decay(61682);
            0x0020: decay(61562);
            0x0021: decay(61441);
            0x0022: decay(61321);
            0x0023: decay(61202);
            0x0024: decay(61082);
            0x0025: decay(60963);
            0x0026: decay(60844);
            0x0027: decay(60725);
            0x0028: decay(60606);
            0x0029: decay(60488);
            0x002a: decay(60370);
            0x002b: decay(60252);
            0x002c: decay(60134);
            0x002d: decay(60017);
            0x002e: decay(59899);
            0x002f: decay(59782);
            0x0030: decay(59666);
            0x0031: decay(59549);
            0x0032: decay(59433);
            0x0033: decay(59317);
            0x0034: decay(59201);
            0x0035: decay(59085);
            0x0036: decay(58970);
            0x0037: decay(58855);
            0x0038: decay(58740);
            0x0039: decay(58625);
            0x003a: decay(58511);
            0x003b: decay(58396);
            0x003c: decay(58282);
            0x003d: decay(58168);
            0x003e: decay(58055);
            0x003f: decay(57941);
            0x0040 &&& 0xfffe: decay(57772);
            0x0042 &&& 0xfffe: decay(57546);
            0x0044 &&& 0xfffe: decay(57322);
            0x0046 &&& 0xfffe: decay(57098);
            0x0048 &&& 0xfffe: decay(56875);
            0x004a &&& 0xfffe: decay(56653);
            0x004c &&& 0xfffe: decay(56432);
            0x004e &&& 0xfffe: decay(56212);
            0x0050 &&& 0xfffe: decay(55993);
            0x0052 &&& 0xfffe: decay(55774);
            0x0054 &&& 0xfffe: decay(55556);
            0x0056 &&& 0xfffe: decay(55340);
            0x0058 &&& 0xfffe: decay(55124);
            0x005a &&& 0xfffe: decay(54909);
            0x005c &&& 0xfffe: decay(54694);
            0x005e &&& 0xfffe: decay(54481);
            0x0060 &&& 0xfffe: decay(54268);
            0x0062 &&& 0xfffe: decay(54056);
            0x0064 &&& 0xfffe: decay(53845);
            0x0066 &&& 0xfffe: decay(53635);
            0x0068 &&& 0xfffe: decay(53426);
            0x006a &&& 0xfffe: decay(53218);
            0x006c &&& 0xfffe: decay(53010);
            0x006e &&& 0xfffe: decay(52803);
            0x0070 &&& 0xfffe: decay(52597);
            0x0072 &&& 0xfffe: decay(52392);
            0x0074 &&& 0xfffe: decay(52187);
            0x0076 &&& 0xfffe: decay(51984);
            0x0078 &&& 0xfffe: decay(51781);
            0x007a &&& 0xfffe: decay(51579);
            0x007c &&& 0xfffe: decay(51377);
            0x007e &&& 0xfffe: decay(51177);
            0x0080 &&& 0xfffc: decay(50878);
            0x0084 &&& 0xfffc: decay(50481);
            0x0088 &&& 0xfffc: decay(50088);
            0x008c &&& 0xfffc: decay(49698);
            0x0090 &&& 0xfffc: decay(49311);
            0x0094 &&& 0xfffc: decay(48927);
            0x0098 &&& 0xfffc: decay(48546);
            0x009c &&& 0xfffc: decay(48167);
            0x00a0 &&& 0xfffc: decay(47792);
            0x00a4 &&& 0xfffc: decay(47420);
            0x00a8 &&& 0xfffc: decay(47050);
            0x00ac &&& 0xfffc: decay(46684);
            0x00b0 &&& 0xfffc: decay(46320);
            0x00b4 &&& 0xfffc: decay(45960);
            0x00b8 &&& 0xfffc: decay(45602);
            0x00bc &&& 0xfffc: decay(45246);
            0x00c0 &&& 0xfffc: decay(44894);
            0x00c4 &&& 0xfffc: decay(44544);
            0x00c8 &&& 0xfffc: decay(44197);
            0x00cc &&& 0xfffc: decay(43853);
            0x00d0 &&& 0xfffc: decay(43511);
            0x00d4 &&& 0xfffc: decay(43172);
            0x00d8 &&& 0xfffc: decay(42836);
            0x00dc &&& 0xfffc: decay(42502);
            0x00e0 &&& 0xfffc: decay(42171);
            0x00e4 &&& 0xfffc: decay(41843);
            0x00e8 &&& 0xfffc: decay(41517);
            0x00ec &&& 0xfffc: decay(41193);
            0x00f0 &&& 0xfffc: decay(40873);
            0x00f4 &&& 0xfffc: decay(40554);
            0x00f8 &&& 0xfffc: decay(40238);
            0x00fc &&& 0xfffc: decay(39925);
            0x0100 &&& 0xfff8: decay(39459);
            0x0108 &&& 0xfff8: decay(38847);
            0x0110 &&& 0xfff8: decay(38244);
            0x0118 &&& 0xfff8: decay(37651);
            0x0120 &&& 0xfff8: decay(37066);
            0x0128 &&& 0xfff8: decay(36491);
            0x0130 &&& 0xfff8: decay(35925);
            0x0138 &&& 0xfff8: decay(35367);
            0x0140 &&& 0xfff8: decay(34818);
            0x0148 &&& 0xfff8: decay(34278);
            0x0150 &&& 0xfff8: decay(33746);
            0x0158 &&& 0xfff8: decay(33222);
            0x0160 &&& 0xfff8: decay(32707);
            0x0168 &&& 0xfff8: decay(32199);
            0x0170 &&& 0xfff8: decay(31700);
            0x0178 &&& 0xfff8: decay(31208);
            0x0180 &&& 0xfff8: decay(30723);
            0x0188 &&& 0xfff8: decay(30247);
            0x0190 &&& 0xfff8: decay(29777);
            0x0198 &&& 0xfff8: decay(29315);
            0x01a0 &&& 0xfff8: decay(28860);
            0x01a8 &&& 0xfff8: decay(28412);
            0x01b0 &&& 0xfff8: decay(27971);
            0x01b8 &&& 0xfff8: decay(27537);
            0x01c0 &&& 0xfff8: decay(27110);
            0x01c8 &&& 0xfff8: decay(26689);
            0x01d0 &&& 0xfff8: decay(26275);
            0x01d8 &&& 0xfff8: decay(25867);
            0x01e0 &&& 0xfff8: decay(25466);
            0x01e8 &&& 0xfff8: decay(25071);
            0x01f0 &&& 0xfff8: decay(24682);
            0x01f8 &&& 0xfff8: decay(24299);
            0x0200 &&& 0xfff0: decay(23735);
            0x0210 &&& 0xfff0: decay(23004);
            0x0220 &&& 0xfff0: decay(22296);
            0x0230 &&& 0xfff0: decay(21609);
            0x0240 &&& 0xfff0: decay(20944);
            0x0250 &&& 0xfff0: decay(20299);
            0x0260 &&& 0xfff0: decay(19674);
            0x0270 &&& 0xfff0: decay(19068);
            0x0280 &&& 0xfff0: decay(18480);
            0x0290 &&& 0xfff0: decay(17911);
            0x02a0 &&& 0xfff0: decay(17360);
            0x02b0 &&& 0xfff0: decay(16825);
            0x02c0 &&& 0xfff0: decay(16307);
            0x02d0 &&& 0xfff0: decay(15805);
            0x02e0 &&& 0xfff0: decay(15318);
            0x02f0 &&& 0xfff0: decay(14846);
            0x0300 &&& 0xfff0: decay(14389);
            0x0310 &&& 0xfff0: decay(13946);
            0x0320 &&& 0xfff0: decay(13516);
            0x0330 &&& 0xfff0: decay(13100);
            0x0340 &&& 0xfff0: decay(12697);
            0x0350 &&& 0xfff0: decay(12306);
            0x0360 &&& 0xfff0: decay(11927);
            0x0370 &&& 0xfff0: decay(11559);
            0x0380 &&& 0xfff0: decay(11203);
            0x0390 &&& 0xfff0: decay(10858);
            0x03a0 &&& 0xfff0: decay(10524);
            0x03b0 &&& 0xfff0: decay(10200);
            0x03c0 &&& 0xfff0: decay(9886);
            0x03d0 &&& 0xfff0: decay(9581);
            0x03e0 &&& 0xfff0: decay(9286);
            0x03f0 &&& 0xfff0: decay(9000);
            0x0400 &&& 0xffe0: decay(8588);
            0x0420 &&& 0xffe0: decay(8067);
            0x0440 &&& 0xffe0: decay(7578);
            0x0460 &&& 0xffe0: decay(7118);
            0x0480 &&& 0xffe0: decay(6687);
            0x04a0 &&& 0xffe0: decay(6281);
            0x04c0 &&& 0xffe0: decay(5900);
            0x04e0 &&& 0xffe0: decay(5542);
            0x0500 &&& 0xffe0: decay(5206);
            0x0520 &&& 0xffe0: decay(4890);
            0x0540 &&& 0xffe0: decay(4594);
            0x0560 &&& 0xffe0: decay(4315);
            0x0580 &&& 0xffe0: decay(4054);
            0x05a0 &&& 0xffe0: decay(3808);
            0x05c0 &&& 0xffe0: decay(3577);
            0x05e0 &&& 0xffe0: decay(3360);
            0x0600 &&& 0xffe0: decay(3156);
            0x0620 &&& 0xffe0: decay(2965);
            0x0640 &&& 0xffe0: decay(2785);
            0x0660 &&& 0xffe0: decay(2616);
            0x0680 &&& 0xffe0: decay(2457);
            0x06a0 &&& 0xffe0: decay(2308);
            0x06c0 &&& 0xffe0: decay(2168);
            0x06e0 &&& 0xffe0: decay(2037);
            0x0700 &&& 0xffe0: decay(1913);
            0x0720 &&& 0xffe0: decay(1797);
            0x0740 &&& 0xffe0: decay(1688);
            0x0760 &&& 0xffe0: decay(1586);
            0x0780 &&& 0xffe0: decay(1490);
            0x07a0 &&& 0xffe0: decay(1399);
            0x07c0 &&& 0xffe0: decay(1315);
            0x07e0 &&& 0xffe0: decay(1235);
            0x0800 &&& 0xffc0: decay(1124);
            0x0840 &&& 0xffc0: decay(992);
            0x0880 &&& 0xffc0: decay(875);
            0x08c0 &&& 0xffc0: decay(772);
            0x0900 &&& 0xffc0: decay(682);
            0x0940 &&& 0xffc0: decay(601);
            0x0980 &&& 0xffc0: decay(531);
            0x09c0 &&& 0xffc0: decay(468);
            0x0a00 &&& 0xffc0: decay(413);
            0x0a40 &&& 0xffc0: decay(365);
            0x0a80 &&& 0xffc0: decay(322);
            0x0ac0 &&& 0xffc0: decay(284);
            0x0b00 &&& 0xffc0: decay(250);
            0x0b40 &&& 0xffc0: decay(221);
            0x0b80 &&& 0xffc0: decay(195);
            0x0bc0 &&& 0xffc0: decay(172);
            0x0c00 &&& 0xffc0: decay(152);
            0x0c40 &&& 0xffc0: decay(134);
            0x0c80 &&& 0xffc0: decay(118);
            0x0cc0 &&& 0xffc0: decay(104);
            0x0d00 &&& 0xffc0: decay(92);
            0x0d40 &&& 0xffc0: decay(81);
            0x0d80 &&& 0xffc0: decay(72);
            0x0dc0 &&& 0xffc0: decay(63);
            0x0e00 &&& 0xffc0: decay(56);
            0x0e40 &&& 0xffc0: decay(49);
            0x0e80 &&& 0xffc0: decay(43);
            0x0ec0 &&& 0xffc0: decay(38);
            0x0f00 &&& 0xffc0: decay(34);
            0x0f40 &&& 0xffc0: decay(30);
            0x0f80 &&& 0xffc0: decay(26);
            0x0fc0 &&& 0xffc0: decay(23);
        }
    }

    apply {
        red_idle_decay.apply();
    }
}

#endif
