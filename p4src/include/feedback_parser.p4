// SIM feedback: the fixed part and its records, each into the header of its rank.
//
// Records stand in ascending order of rank (docs/wire-format.md), so from the state of one rank
// only those of higher ranks can be reached: no loop, no stack, and a message in another order ends
// here with `parsed` false, the rest of it unread.
#ifndef TIERCAST_FEEDBACK_PARSER_P4
#define TIERCAST_FEEDBACK_PARSER_P4

#include "headers.p4"

parser SimFeedbackParser(packet_in packet, in bit<16> header_length, out sim_feedback_t feedback,
                         out sim_record_t record_0, out sim_record_t record_1,
                         out sim_record_t record_2, out sim_record_t record_3,
                         out sim_record_t record_4, out sim_record_t record_5,
                         out sim_record_t record_6, out sim_record_t record_7,
                         out bool parsed) {
    bit<8> left;  // records to come

    state start {
        parsed = false;
        packet.extract(feedback);
        left = feedback.record_count;
        // SIM_FEEDBACK_BYTES + 24 record_count
        transition select(feedback.record_count, header_length) {
            (0, 28): whole;
            (1, 52): rank_0_or_above;
            (2, 76): rank_0_or_above;
            (3, 100): rank_0_or_above;
            (4, 124): rank_0_or_above;
            (5, 148): rank_0_or_above;
            (6, 172): rank_0_or_above;
            (7, 196): rank_0_or_above;
            (8, 220): rank_0_or_above;
            default: accept;
        }
    }

    state whole {
        parsed = true;
        transition accept;
    }

    state rank_0_or_above {
        transition select(packet.lookahead<bit<8>>()) {
            0: rank_0;
            1: rank_1;
            2: rank_2;
            3: rank_3;
            4: rank_4;
            5: rank_5;
            6: rank_6;
            7: rank_7;
            default: accept;
        }
    }

    state rank_0 {
        packet.extract(record_0);
        left = left - 1;
        transition select(left) {
            0: whole;
            default: rank_1_or_above;
        }
    }

    state rank_1_or_above {
        transition select(packet.lookahead<bit<8>>()) {
            1: rank_1;
            2: rank_2;
            3: rank_3;
            4: rank_4;
            5: rank_5;
            6: rank_6;
            7: rank_7;
            default: accept;
        }
    }

    state rank_1 {
        packet.extract(record_1);
        left = left - 1;
        transition select(left) {
            0: whole;
            default: rank_2_or_above;
        }
    }

    state rank_2_or_above {
        transition select(packet.lookahead<bit<8>>()) {
            2: rank_2;
            3: rank_3;
            4: rank_4;
            5: rank_5;
            6: rank_6;
            7: rank_7;
            default: accept;
        }
    }

    state rank_2 {
        packet.extract(record_2);
        left = left - 1;
        transition select(left) {
            0: whole;
            default: rank_3_or_above;
        }
    }

    state rank_3_or_above {
        transition select(packet.lookahead<bit<8>>()) {
            3: rank_3;
            4: rank_4;
            5: rank_5;
            6: rank_6;
            7: rank_7;
            default: accept;
        }
    }

    state rank_3 {
        packet.extract(record_3);
        left = left - 1;
        transition select(left) {
            0: whole;
            default: rank_4_or_above;
        }
    }

    state rank_4_or_above {
        transition select(packet.lookahead<bit<8>>()) {
            4: rank_4;
            5: rank_5;
            6: rank_6;
            7: rank_7;
            default: accept;
        }
    }

    state rank_4 {
        packet.extract(record_4);
        left = left - 1;
        transition select(left) {
            0: whole;
            default: rank_5_or_above;
        }
    }

    state rank_5_or_above {
        transition select(packet.lookahead<bit<8>>()) {
            5: rank_5;
            6: rank_6;
            7: rank_7;
            default: accept;
        }
    }

    state rank_5 {
        packet.extract(record_5);
        left = left - 1;
        transition select(left) {
            0: whole;
            default: rank_6_or_above;
        }
    }

    state rank_6_or_above {
        transition select(packet.lookahead<bit<8>>()) {
            6: rank_6;
            7: rank_7;
            default: accept;
        }
    }

    state rank_6 {
        packet.extract(record_6);
        left = left - 1;
        transition select(left) {
            0: whole;
            default: rank_7_or_above;
        }
    }

    state rank_7_or_above {
        transition select(packet.lookahead<bit<8>>()) {
            7: rank_7;
            default: accept;
        }
    }

    state rank_7 {
        packet.extract(record_7);
        left = left - 1;
        transition select(left) {
            0: whole;
            default: accept;
        }
    }
}

#endif
