//! `#[derive(Module)]`: one visit of the fields, in declaration order, under PyTorch's names.
//!
//! The names are derived so that a state dict written by PyTorch fits the struct of the same shape:
//! a field is a path segment, `Vec` adds an index, a tuple struct counts `0`, `1`, …, an enum is the
//! variant it holds, `r#type` is `type`.
use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use quote::{quote, quote_spanned};
use syn::{Data, DeriveInput, Field, Fields, Index, LitStr, Result, parse_macro_input, spanned::Spanned};

/// Implements `Module` for a struct or an enum by visiting its fields.
///
/// Field attributes: `#[module(skip)]` leaves a setting out, `#[module(name = "LayerNorm")]` renames a path
/// segment, `#[module(flatten)]` adds no path segment at all.
#[proc_macro_derive(Module, attributes(module))]
pub fn derive_module(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand(&input).unwrap_or_else(|e| e.to_compile_error()).into()
}

fn expand(input: &DeriveInput) -> Result<Tokens> {
    let name = &input.ident;
    let (impl_generics, type_generics, bounds) = input.generics.split_for_impl();
    let body = match &input.data {
        Data::Struct(s) => visit_fields(&s.fields)?,
        Data::Enum(e) => {
            let arms = e.variants.iter().map(|v| visit_variant(name, v)).collect::<Result<Vec<_>>>()?;
            quote!(match self { #(#arms),* })
        }
        Data::Union(u) => return Err(syn::Error::new(u.union_token.span, "derive(Module): not for unions")),
    };
    Ok(quote! {
        impl #impl_generics ::rustytorch::nn::Module for #name #type_generics #bounds {
            #[allow(unused_variables)]
            fn visit(&self, visitor: &mut ::rustytorch::nn::Visitor<'_>) { #body }
        }
    })
}

/// `enum Norm { Layer(LayerNorm), Rms(RmsNorm) }` is the variant it holds and adds no path segment.
fn visit_variant(name: &syn::Ident, variant: &syn::Variant) -> Result<Tokens> {
    let id = &variant.ident;
    match &variant.fields {
        Fields::Unit => Ok(quote!(#name::#id => {})),
        Fields::Unnamed(f) if f.unnamed.len() == 1 => {
            Ok(quote!(#name::#id(module) => ::rustytorch::nn::Module::visit(module, visitor)))
        }
        other => Err(syn::Error::new(other.span(), "derive(Module): a variant holds one module or nothing")),
    }
}

fn visit_fields(fields: &Fields) -> Result<Tokens> {
    let calls = fields.iter().enumerate().map(|(i, f)| visit_field(i, f)).collect::<Result<Vec<_>>>()?;
    Ok(quote!(#(#calls)*))
}

/// The call carries the field's span, so "not a Field" is reported at the field, not at the derive.
fn visit_field(position: usize, field: &Field) -> Result<Tokens> {
    let settings = Settings::of(position, field)?;
    let place = match &field.ident {
        Some(id) => quote!(&self.#id),
        None => {
            let i = Index::from(position);
            quote!(&self.#i)
        }
    };
    let (span, name) = (field.ty.span(), &settings.name);
    Ok(match settings.role {
        Role::Skip => quote!(),
        Role::Flatten => quote_spanned!(span=> ::rustytorch::nn::Module::visit(#place, visitor);),
        Role::Named => quote_spanned!(span=> ::rustytorch::nn::Field::visit_field(#place, #name, visitor);),
    })
}

enum Role {
    Named,
    Flatten,
    Skip,
}

struct Settings {
    name: String,
    role: Role,
}

impl Settings {
    fn of(position: usize, field: &Field) -> Result<Self> {
        // Raw identifiers lose their `r#`: a field `r#type` is called "type".
        let name = match &field.ident {
            Some(id) => id.to_string().trim_start_matches("r#").to_owned(),
            None => position.to_string(),
        };
        let mut settings = Self { name, role: Role::Named };
        for attribute in field.attrs.iter().filter(|a| a.path().is_ident("module")) {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("skip") {
                    settings.role = Role::Skip;
                } else if meta.path.is_ident("flatten") {
                    settings.role = Role::Flatten;
                } else if meta.path.is_ident("name") {
                    settings.name = meta.value()?.parse::<LitStr>()?.value();
                } else {
                    return Err(meta.error("expected `skip`, `flatten` or `name = \"…\"`"));
                }
                Ok(())
            })?;
        }
        Ok(settings)
    }
}
