//! In which type operands of every kind meet: all pairs against PyTorch's rule, written down case by case.
use rtx_core::{Class, DType, Location, Scalar};
use rtx_ir::{Arg, Builder, Graph, Type, rules};

/// c10's `combine_categories`, of which ours is a shorter form.
fn combined(higher: DType, lower: DType) -> DType {
    if higher.class() == Class::Complex {
        return higher;
    }
    if higher.is_float() {
        return match (lower.class(), higher) {
            (Class::Complex, DType::F64) => DType::C128,
            (Class::Complex, _) => DType::C64,
            _ => higher,
        };
    }
    if higher == DType::Bool || lower.is_float() || lower.class() == Class::Complex {
        return higher.promote(lower);
    }
    higher
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Dims(DType),
    Rank0(DType),
    Number(Scalar),
}

fn met(kinds: &[Kind]) -> Option<DType> {
    let mut graph = Graph::new();
    let args: Vec<Arg> = kinds
        .iter()
        .map(|k| match k {
            Kind::Dims(d) => Arg::Value(graph.push_input(Type::new(*d, [2]), Location::caller())),
            Kind::Rank0(d) => Arg::Value(graph.push_input(Type::new(*d, []), Location::caller())),
            Kind::Number(s) => Arg::Scalar(*s),
        })
        .collect();
    rules::promote(&Builder::new(&mut graph, Location::caller()), &args)
}

#[test]
fn every_pair_meets_as_in_pytorch() {
    let numbers = [(Scalar::Bool(true), DType::Bool), (Scalar::Int(7), DType::I64), (Scalar::Float(0.5), DType::F32)];
    for a in DType::ALL {
        for b in DType::ALL {
            let both = [Kind::Dims(a), Kind::Dims(b)];
            assert_eq!(met(&both), Some(a.promote(b)), "{both:?}");
            let both = [Kind::Rank0(a), Kind::Rank0(b)];
            assert_eq!(met(&both), Some(a.promote(b)), "{both:?}");
            for both in [[Kind::Dims(a), Kind::Rank0(b)], [Kind::Rank0(b), Kind::Dims(a)]] {
                assert_eq!(met(&both), Some(combined(a, b)), "{both:?}");
            }
            for (s, of) in numbers {
                let all = [Kind::Dims(a), Kind::Number(s), Kind::Rank0(b)];
                assert_eq!(met(&all), Some(combined(combined(a, b), of)), "{all:?}");
            }
        }
        for (s, of) in numbers {
            for kind in [Kind::Dims(a), Kind::Rank0(a)] {
                assert_eq!(met(&[kind, Kind::Number(s)]), Some(combined(a, of)), "{kind:?} with {s}");
            }
        }
    }
    assert_eq!(met(&[Kind::Number(Scalar::Int(1))]), None);
}

#[test]
fn the_cases_of_the_documentation() {
    let float = Scalar::Float(0.5);
    let cases = [
        (vec![Kind::Dims(DType::I32), Kind::Number(float)], DType::F32),
        (vec![Kind::Dims(DType::BF16), Kind::Number(float)], DType::BF16),
        (vec![Kind::Dims(DType::BF16), Kind::Rank0(DType::F64)], DType::BF16),
        (vec![Kind::Dims(DType::I32), Kind::Rank0(DType::F64)], DType::F64),
        (vec![Kind::Dims(DType::U8), Kind::Rank0(DType::I64)], DType::U8),
        (vec![Kind::Dims(DType::Bool), Kind::Rank0(DType::I64)], DType::I64),
        (vec![Kind::Dims(DType::Bool), Kind::Number(Scalar::Int(1))], DType::I64),
        (vec![Kind::Dims(DType::F32), Kind::Rank0(DType::C128)], DType::C64),
        (vec![Kind::Dims(DType::F64), Kind::Rank0(DType::C64)], DType::C128),
    ];
    for (kinds, want) in cases {
        assert_eq!(met(&kinds), Some(want), "{kinds:?}");
    }
}
